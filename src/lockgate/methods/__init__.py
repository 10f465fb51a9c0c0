"""one file per method. Registering a method here enrols it in every contract test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockgate.registry import Entry, Registry

if TYPE_CHECKING:
    from lockgate.methods.base import Method

METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "ccgn": Entry("lockgate.methods.ccgn.method:CCGN", "The paper's method, task given: gates open, filters lock."),
        "ccgn-episodic": Entry(
            "lockgate.methods.ccgn.episodic:CCGNEpisodic", "The paper's method, task not given: keeps a few images."
        ),
        "ccgn-generative": Entry(
            "lockgate.methods.ccgn.generative:CCGNGenerative", "The paper's method, task not given: keeps generators."
        ),
        "finetune": Entry(
            "lockgate.methods.finetune:Finetune", "Trains on each task in turn and protects nothing: forgets."
        ),
        "joint": Entry(
            "lockgate.methods.joint:Joint", "All tasks at once, one head each: the task-incremental upper bound."
        ),
        "full-replay": Entry(
            "lockgate.methods.full_replay:FullReplay",
            "Keeps every image and trains on all tasks seen, one head for all: the class-incremental upper bound.",
        ),
        "icarl": Entry(
            "lockgate.methods.icarl:ICaRL", "Keeps exemplars, distils the old network, answers by the nearest mean."
        ),
        "agem": Entry(
            "lockgate.methods.agem:AGEM", "Keeps a few images and takes no step against their gradient (A-GEM)."
        ),
        "gdumb": Entry(
            "lockgate.methods.gdumb:GDumb", "Keeps a few images and trains a new network on them alone (GDumb)."
        ),
        "er": Entry("lockgate.methods.er:ER", "Keeps a few images and learns from them beside the new ones (replay)."),
        "er-ace": Entry(
            "lockgate.methods.er_ace:ERACE", "As er, but new images compete among the classes of their task only."
        ),
        "der++": Entry(
            "lockgate.methods.derpp:DERPP", "Keeps images with their labels and what the network said of them (DER++)."
        ),
        "ncm": Entry("lockgate.methods.ncm:NCM", "A frozen network, and the mean of each class: the nearest answers."),
        "slda": Entry(
            "lockgate.methods.slda:SLDA", "A frozen network, class means and one shrunken covariance, in closed form."
        ),
        "slda-ridge": Entry(
            "lockgate.methods.slda_ridge:SLDARidge", "As slda, times a ridge regression from the same sums."
        ),
        "slda-bilinear": Entry(
            "lockgate.methods.slda_bilinear:SLDABilinear",
            "As slda-ridge, times a ridge regression on products of channels.",
        ),
        "ranpac": Entry(
            "lockgate.methods.ranpac:RanPAC", "A frozen network, random projections, and a ridge regression (RanPAC)."
        ),
        "dgm": Entry(
            "lockgate.methods.dgm.method:DGM",
            "One generator with a mask per task that grows; its critic classifies (DGM).",
        ),
        "cgen": Entry(
            "lockgate.methods.cgen:CGen", "Keeps labelled generators and trains on their images only (C-Gen)."
        ),
        "ewc-online": Entry(
            "lockgate.methods.ewc_online:EWCOnline", "Pulls weights that mattered to past tasks back (online EWC)."
        ),
        "lwf": Entry("lockgate.methods.lwf:LwF", "Holds old heads to what the old network says of new images."),
        "hat": Entry("lockgate.methods.hat:HAT", "A mask over units per task; weights between used units freeze."),
    },
    group="lockgate.methods",
    check="lockgate.methods.validation:method_problems",
)

"""Without a task: past streams are constants, rehearsal teaches the task classifier alone, answers follow from both."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import math

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.config import AugmentConfig
from lockgate.evaluation.exactness import audit, promise
from lockgate.methods.ccgn.method import CCGN
from lockgate.runs.build import build_learner, build_scenario
from lockgate.runs.task_phase import task_phase
from lockgate.testing import walk
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit, FitState
from lockgate.training.progress import Progress
from lockgate.types import Batch, Examples, Task

METHODS = pytest.mark.parametrize("method", ["ccgn-episodic", "ccgn-generative"])
SHAPES = pytest.mark.parametrize("backbone", tiny.BACKBONES)
CASES = pytest.mark.parametrize(
    ("method", "backbone"), [*(("ccgn-episodic", b) for b in tiny.BACKBONES), ("ccgn-generative", "simple_cnn")]
)
THREE = {"tasks": 3, "data": {"synthetic_classes": 6, "synthetic_per_class": 20}}


LATE = {"inference", "rehearsal", "random_translate"}
"""Options that make no difference to what two tasks leave behind, as far as these tests go: one walk does for all."""


def experiment_of(method, backbone="simple_cnn", **options):
    """With the paper's task classifier; read-out and companion are tested in test_readout.py and test_companion.py."""
    options.setdefault("companion", 0.0)
    augment = {"random_translate": options.pop("random_translate", 0), "images": "rehearsed"}
    options.setdefault("readout", "mlp")
    return tiny.experiment(method, backbone, options=options, augment=augment, **THREE)


@functools.cache
def _two_tasks(method, backbone, options):
    torch.manual_seed(0)
    experiment = experiment_of(method, backbone, **dict(options))
    walker = walk(experiment)
    next(walker)
    return next(walker)[0].eval(), build_scenario(experiment).tasks


def after_two(method="ccgn-episodic", backbone="simple_cnn", **options):
    """A learner that has learnt two tasks, and all three."""
    early = tuple((name, value) for name, value in options.items() if name not in LATE)
    learner, tasks = _two_tasks(method, backbone, early)
    learner = copy.deepcopy(learner)
    learner.augment = AugmentConfig(random_translate=options.pop("random_translate", 0))
    learner.options = dataclasses.replace(learner.options, **options)
    learner.inference = learner.options.inference
    return learner, tasks


def in_third(method="ccgn-episodic", backbone="simple_cnn", **options):
    """A learner at the first step of its third task."""
    learner, tasks = after_two(method, backbone, **options)
    torch.manual_seed(3)
    learner.begin_task(tasks[2])
    learner.epoch = 0
    return learner.train(), tasks


def some_of(task, count=8):
    return Batch(task.train.x[:count], task.train.y[:count], task.train.task[:count])


def key(image):
    return bytes(image.contiguous().flatten().tolist())


def keys(images):
    return [key(image) for image in images]


# -- oracles: everything computed, at full width -------------------------------------------------------------------


def dense(learner):
    """A copy that computes every channel; its gates are shut where they were."""
    plain = copy.deepcopy(learner).eval()
    for layer in plain.gated.values():
        layer.reads.clear()
        layer.writes.clear()
    for group in plain.backbone.channels:
        for norm in group.norms:
            norm.reads.clear()
    return plain


@torch.no_grad()
def plain_streams(learner, x):
    """Features of every stream, at full width."""
    plain = dense(learner)
    return [plain.backbone(plain.input(x), t).features for t in range(len(plain.heads))]


@torch.no_grad()
def plain_outputs(learner, x):
    """A plain MLP on the features of all streams, one beside the other."""
    squeeze, out = learner.task_classifier.squeeze, learner.task_classifier.out
    hidden = torch.cat(plain_streams(learner, x), dim=1) @ squeeze.weight.T + squeeze.bias
    return hidden.clamp(min=0) @ out.weight.T + out.bias


def can_open(learner, group, task):
    """Channels that some writer's gate can open."""
    return torch.stack(
        [w.gate(task).seal & ~w.gate(task).pruned for w in learner.backbone.channels[group].writers]
    ).any(0)


class Spy:
    """What enters the network and the task classifier, in order."""

    def __init__(self, learner):
        self.images, self.rehearsed = [], []
        learner.input.register_forward_pre_hook(lambda _, args: self.images.append(args[0]))
        # The last images that entered before the task classifier was asked are those it was asked about.
        learner.task_classifier.register_forward_pre_hook(lambda *_: self.rehearsed.append(self.images[-1]))


# -- past streams are constants ------------------------------------------------------------------------------------


@CASES
@pytest.mark.parametrize("random_translate", [0, 2])
def test_the_pool_holds_what_past_streams_compute_bit_for_bit_and_nothing_is_lost(method, backbone, random_translate):
    learner, _ = in_third(method, backbone, random_translate=random_translate)
    pool = learner.pool()
    learner.eval()
    with torch.no_grad():
        streams = [learner.backbone(learner.input(pool.x), t).features for t in range(2)]
    open_ = [can_open(learner, -1, t) for t in range(2)]
    assert torch.equal(pool.past, torch.cat([f[:, o] for f, o in zip(streams, open_, strict=True)], dim=1))
    for features, mask in zip(streams, open_, strict=True):
        assert not features[:, ~mask].any(), "a channel outside the pool is not zero"
    assert pool.past.shape[1] < sum(f.shape[1] for f in streams), "every channel can open: the test would prove little"
    assert pool.past.any()
    assert len(pool.past) == len(pool.x) == len(pool.target) == int(pool.sizes.sum())


@pytest.mark.parametrize(
    ("method", "backbone", "random_translate", "made"),
    [
        ("ccgn-episodic", "simple_cnn", 0, "once a task"),
        ("ccgn-episodic", "resnet18", 0, "once a task"),
        ("ccgn-episodic", "simple_cnn", 1, "every epoch"),
        ("ccgn-generative", "simple_cnn", 0, "every epoch"),
    ],
)
def test_past_streams_run_when_a_pool_is_made_and_never_in_a_step(method, backbone, random_translate, made):
    learner, tasks = in_third(method, backbone, random_translate=random_translate)
    calls = collections.Counter()
    for name, layer in learner.gated.items():
        for t in range(3):
            layer.gate(t).register_forward_hook(lambda *_, which=(t, name): calls.update([which]))
    experiment = dataclasses.replace(experiment_of(method, backbone, random_translate=random_translate), epochs=3)
    phase = task_phase(learner, tasks[2], tasks[2].train, experiment)
    assert phase.steps >= 4
    quiet = Progress(1, 0, quiet=True)
    Fit(make_fabric(experiment), phase, experiment, FitState(), lambda _: None, quiet).run(lambda _: None)
    for (task, name), count in calls.items():
        if task < 2:
            assert count == (1 if made == "once a task" else 3), name
        else:
            assert count >= 2 * 3 * phase.steps, "a step runs the current stream twice"
    assert len(calls) == 3 * len(learner.gated)


@CASES
def test_no_gradient_is_kept_for_the_past(method, backbone):
    learner, tasks = in_third(method, backbone)
    losses = learner(some_of(tasks[2]))
    sum(losses.values()).backward()
    pool = learner.pool()
    assert not pool.past.requires_grad
    past = [m for layer in learner.gated.values() for m in list(layer.gates)[:2]]
    past += [m for group in learner.backbone.channels for norm in group.norms for m in list(norm.norms)[:2]]
    past += list(learner.heads)[:2]
    assert all(p.grad is None and not p.requires_grad for m in past for p in m.parameters())
    assert all(p.grad is not None for p in learner.task_classifier.parameters())


@SHAPES
def test_the_task_loss_teaches_the_current_stream_and_its_gates(backbone):
    learner, _ = in_third(backbone=backbone)
    learner.task_loss(12).backward()
    for layer in learner.gated.values():
        assert layer.gate(2).excite.weight.grad is not None
    assert any(layer.gate(2).excite.weight.grad.any() for layer in learner.gated.values())
    assert any(layer.weight.grad.any() for layer in learner.gated.values())


def test_a_stream_whose_last_layer_is_shut_adds_nothing():
    learner, tasks = in_third(backbone="mlp", open_bias=-0.1)
    assert not can_open(learner, -1, 0).any(), "the gates of the first task are not shut: the test proves nothing"
    assert not plain_streams(learner, tasks[0].test.x)[0].any()
    width = int(can_open(learner, -1, 1).sum())
    assert not learner.pool().past[:, :-width].any()
    with torch.no_grad():
        before = learner.eval().answers(tasks[0].test.x)
        learner.task_classifier.squeeze.weight[:, : learner.task_classifier.inputs[0]] = 100.0
        after = learner.answers(tasks[0].test.x)
    assert all(torch.equal(before[kind], after[kind]) for kind in before)


# -- rehearsal -----------------------------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("count", [1, 2, 8, 9])
def test_rehearsal_is_uniform_over_tasks_and_over_the_images_of_a_task(method, count):
    learner, _ = in_third(method)
    pool = learner.pool()
    torch.manual_seed(0)
    seen, more = torch.zeros(len(pool.x)), torch.zeros(3)
    for _ in range(400):
        rows = pool.rows(count, at_random=learner.training)
        tasks = torch.bincount(pool.target[rows], minlength=3)
        assert tasks.sum() == count
        assert tasks.max() - tasks.min() <= 1
        more += tasks
        seen += torch.bincount(rows, minlength=len(seen))
    if count >= 8:
        assert (seen > 0).all(), "some image can never come"
    torch.testing.assert_close(more / more.sum(), torch.full((3,), 1 / 3), atol=0.08, rtol=0)


def test_images_of_a_small_and_of_a_large_task_come_equally_often_within_the_task():
    learner, _ = in_third(buffer=6)
    pool = learner.pool()
    assert pool.sizes.tolist() == [3, 3, 36]
    torch.manual_seed(0)
    seen = sum(torch.bincount(pool.rows(108, at_random=True), minlength=42) for _ in range(200))
    assert seen[:6].tolist() == pytest.approx([2400] * 6, rel=0.1)  # 200 * 36 draws of each task
    assert seen[6:].tolist() == pytest.approx([200] * 36, rel=0.35)


@METHODS
def test_evaluation_rehearses_on_the_same_rows_every_time_and_draws_nothing(method):
    learner, tasks = in_third(method)
    learner.eval()
    spy = Spy(learner)
    state = torch.get_rng_state()
    with torch.no_grad():
        values = [float(learner.loss(some_of(tasks[2], 20))["task"]) for _ in range(2)]
    assert values[0] == values[1]
    assert torch.equal(spy.rehearsed[0], spy.rehearsed[1])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("rehearsal", "rows"), [(0, 8), (5, 5), (21, 21)])
def test_a_rehearsal_batch_is_as_large_as_asked_or_as_the_batch(rehearsal, rows):
    learner, tasks = in_third(rehearsal=rehearsal)
    spy = Spy(learner)
    learner(some_of(tasks[2], 8))
    assert [len(x) for x in spy.rehearsed] == [rows]


@CASES
def test_the_rehearsal_batch_moves_no_statistics(method, backbone):
    learner, tasks = in_third(method, backbone)
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    modes = {name: module.training for name, module in learner.named_modules()}
    learner.task_loss(12)
    assert {name: module.training for name, module in learner.named_modules()} == modes
    assert all(torch.equal(value, before[name]) for name, value in learner.state_dict().items())
    without, withal = copy.deepcopy(learner), learner
    torch.manual_seed(5)
    class_only = CCGN.loss(without, some_of(tasks[2]))
    torch.manual_seed(5)
    whole = withal.loss(some_of(tasks[2]))
    assert torch.equal(whole["class"], class_only["class"])
    a, b = without.state_dict(), withal.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    moved = [name for name in a if not torch.equal(a[name], before[name])]
    assert any("running_mean" in name for name in moved), "statistics never move: the test would prove nothing"
    assert any(name.endswith("fires") for name in moved)
    assert any(name.endswith("images") for name in moved)


@METHODS
def test_replay_never_touches_a_class_head(method):
    learner, tasks = in_third(method)
    rows = collections.defaultdict(list)
    for t, head in enumerate(learner.heads):
        head.requires_grad_(True)  # even if it could
        head.register_forward_hook(lambda _, args, __, t=t: rows[t].append(len(args[0])))
    losses = learner(some_of(tasks[2], 7))
    grads = torch.autograd.grad(losses["task"], list(learner.heads.parameters()), allow_unused=True, retain_graph=True)
    assert all(g is None for g in grads)
    assert rows == {2: [7]}, "the class loss sees the batch, once, under the current head"
    own = torch.autograd.grad(losses["class"], list(learner.heads[2].parameters()))
    assert all(g.any() for g in own)


def test_what_the_buffer_holds_changes_the_task_loss_and_no_other():
    learner, tasks = in_third()
    other = copy.deepcopy(learner)
    other.memory.x = 255 - other.memory.x
    found = []
    for one in (learner, other):
        one.epoch = 1
        torch.manual_seed(5)
        found.append(one(some_of(tasks[2])))
    assert torch.equal(found[0]["class"], found[1]["class"])
    assert torch.equal(found[0]["sparsity"], found[1]["sparsity"])
    assert not torch.equal(found[0]["task"], found[1]["task"])


def test_the_episodic_pool_is_the_buffer_and_every_image_of_the_task():
    learner, tasks = in_third(buffer=20)
    pool = learner.pool()
    assert pool.sizes.tolist() == [10, 10, 36]
    assert pool.starts.tolist() == [0, 10, 20]
    assert torch.equal(pool.x, torch.cat([learner.memory.x, tasks[2].train.x]))
    owner = {key(image): task.id for task in tasks for image in task.train.x}
    assert pool.target.tolist() == [owner[k] for k in keys(pool.x)]


# -- generative: what is real stays out ----------------------------------------------------------------------------


@pytest.mark.parametrize("mix_real", [False, True])
def test_no_real_image_enters_the_task_loss_unless_the_flaw_is_asked_for(mix_real):
    torch.manual_seed(0)
    experiment = experiment_of("ccgn-generative", mix_real=mix_real)
    walker = walk(experiment)
    learner, _ = next(walker)  # the first task has no task loss
    tasks = build_scenario(experiment).tasks
    spy = Spy(learner)
    pools = {}

    def keep_pool(*_):
        pools[len(learner.heads) - 1, learner.epoch] = learner.pool()

    learner.task_classifier.register_forward_pre_hook(keep_pool)
    rehearsed = {}
    for now in (1, 2):
        next(walker)
        rehearsed[now] = {k for x in spy.rehearsed for k in keys(x)}
        spy.rehearsed.clear()
    real = {key(image) for task in tasks for part in (task.train, task.val, task.test) for image in part.x}
    assert list(pools) == [(now, epoch) for now in (1, 2) for epoch in range(experiment.epochs)]
    for (now, _), pool in pools.items():
        own = {key(image) for image in tasks[now].train.x}
        for task, k in zip(pool.target.tolist(), keys(pool.x), strict=True):
            if mix_real and task == now:
                assert k in own
            else:
                assert k not in real
    for now in (1, 2):
        inside = {k for (task, _), pool in pools.items() if task == now for k in keys(pool.x)}
        assert rehearsed[now] <= inside, "an image came from outside the pool"
        assert len(rehearsed[now] - real) > 10
        assert bool(rehearsed[now] & real) == mix_real


def test_generated_images_of_a_task_come_from_its_own_generator_and_are_new_every_epoch():
    learner, _ = in_third("ccgn-generative")
    made = {}
    for t in range(3):
        learner.memory.generator(t).net.register_forward_hook(lambda _, __, out, t=t: made.__setitem__(t, out))
    for epoch in (0, 1):
        learner.epoch = epoch
        pool = learner.pool()
        for t in range(3):
            mine = pool.x[pool.target == t]
            assert len(mine) == 12  # of thirty-six training images
            torch.testing.assert_close(mine.float(), (made[t] + 1) * 127.5, atol=0.51, rtol=0)
    learner.epoch = 0
    assert not set(keys(pool.x)) & set(keys(learner.pool().x))


# -- the objective, Eq. 3 ------------------------------------------------------------------------------------------


@METHODS
def test_the_first_task_has_nothing_to_tell_apart(method):
    experiment = experiment_of(method)
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape)
    learner.begin_task(scenario.tasks[0])
    for epoch, terms in ((0, {"class"}), (1, {"class", "sparsity"})):
        learner.epoch = epoch
        assert learner(some_of(scenario.tasks[0])).keys() == terms
    assert not any(p.requires_grad for p in learner.task_classifier.parameters())


@pytest.mark.parametrize(
    ("method", "backbone", "options"),
    [
        ("ccgn-episodic", "simple_cnn", {}),
        ("ccgn-episodic", "simple_cnn", {"grow": 0.5}),
        ("ccgn-episodic", "resnet18", {"random_translate": 1}),
        ("ccgn-episodic", "mlp", {"grow": 0.5}),
        ("ccgn-generative", "simple_cnn", {"random_translate": 1}),
        ("ccgn-generative", "simple_cnn", {}),
    ],
)
def test_the_task_loss_is_cross_entropy_of_a_plain_mlp_on_all_streams_at_full_width(method, backbone, options):
    learner, tasks = in_third(method, backbone, **options)
    if options.get("grow"):
        assert len(set(learner.task_classifier.inputs)) > 1, "the last layer did not grow"
    spy = Spy(learner)
    for epoch in (0, 1):
        learner.epoch = epoch
        losses = learner(some_of(tasks[2]))
        assert losses.keys() == ({"class", "task"} if epoch == 0 else {"class", "sparsity", "task"})
        x = spy.rehearsed[-1]
        pool = learner.pool()
        task_of = dict(zip(keys(pool.x), pool.target.tolist(), strict=True))
        log_p = plain_outputs(learner, x).log_softmax(1).tolist()
        truth = -sum(row[task_of[k]] for row, k in zip(log_p, keys(x), strict=True)) / len(x)
        assert losses["task"].item() == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("readout", ["mlp", "ridge"])
def test_a_read_out_remembers_held_out_images_and_as_many_of_each_class(readout):
    learner = build_learner(experiment_of("ccgn-episodic", readout=readout, buffer=40), (3, 8, 8))
    train, val = (pictures(value, [180, 20]) for value in (1, 2))  # a rare class
    learner.memory.end_task(Task(0, (0, 1), train, val, val), torch.Generator().manual_seed(0))
    kept = torch.bincount(learner.memory.y, minlength=2).tolist()
    assert sum(kept) == 40
    assert kept == [20, 20] if readout == "ridge" else kept[1] < 12
    assert set(learner.memory.x.flatten().tolist()) == {2 if readout == "ridge" else 1}


def pictures(value, sizes):
    y = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return Examples(torch.full((len(y), 3, 8, 8), value, dtype=torch.uint8), y, torch.zeros_like(y))


def test_targets_by_class_are_indices_among_all_classes_seen_and_sum_up_by_task():
    classes = (3, 2, 4)
    learner = build_learner(experiment_of("ccgn-episodic", targets="class"), (3, 16, 16))
    rng = torch.Generator().manual_seed(0)
    label = {}
    torch.manual_seed(0)
    for t, count in enumerate(classes):
        y = torch.arange(12) % count
        x = torch.randint(256, (12, 3, 16, 16), generator=rng, dtype=torch.uint8)
        examples = Examples(x, y, torch.full_like(y, t))
        label |= {k: sum(classes[:t]) + int(c) for k, c in zip(keys(x), y, strict=True)}
        task = Task(t, tuple(range(sum(classes[:t]), sum(classes[: t + 1]))), examples, examples, examples)
        learner.begin_task(task)
        if t < 2:
            learner.end_task(task)
    pool = learner.pool()
    assert pool.target.tolist() == [label[k] for k in keys(pool.x)]
    assert set(pool.target.tolist()) == set(range(9))
    learner.train()
    spy = Spy(learner)
    losses = learner(Batch(*examples.batch(slice(0, 8))))
    right = [label[k] for k in keys(spy.rehearsed[-1])]
    truth = F.cross_entropy(plain_outputs(learner, spy.rehearsed[-1]), torch.tensor(right))
    assert losses["task"].item() == pytest.approx(float(truth), rel=1e-4)
    p = plain_outputs(learner, pool.x).softmax(1)
    summed = torch.stack([p[:, :3].sum(1), p[:, 3:5].sum(1), p[:, 5:].sum(1)], dim=1)
    learner.eval()
    with torch.no_grad():
        joint = learner.answers(pool.x)["joint"].exp()
    found = torch.stack([joint[:, :3].sum(1), joint[:, 3:5].sum(1), joint[:, 5:].sum(1)], dim=1)
    torch.testing.assert_close(found, summed, rtol=1e-4, atol=1e-5)


# -- inference -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mix_real", [False, True])
def test_generated_images_have_the_class_that_their_own_tasks_head_sees_in_them(mix_real):
    learner, tasks = in_third("ccgn-generative", targets="class", mix_real=mix_real)
    pool = learner.pool()
    owner = torch.repeat_interleave(torch.arange(3), pool.sizes)
    heads = [head(features) for head, features in zip(learner.heads, plain_streams(learner, pool.x), strict=True)]
    seen = torch.stack([2 * t + logits.argmax(1) for t, logits in enumerate(heads)])  # two classes a task
    assert torch.equal(pool.target[owner < 2], seen[owner, torch.arange(len(owner))][owner < 2])
    newest = pool.target[owner == 2]
    assert set(newest.tolist()) == ({4, 5} if mix_real else {-1})  # real images know their class

    spy = Spy(learner)
    for change in (0.0, 1.0):  # what the newest head says counts at once
        with torch.no_grad():
            learner.heads[2].bias += change * torch.tensor([-100.0, 100.0])
        task_loss = learner(some_of(tasks[2]))["task"]
        x, target_of = spy.rehearsed[-1], dict(zip(keys(pool.x), pool.target.tolist(), strict=True))
        target = torch.tensor([target_of[k] for k in keys(x)])
        guess = 4 + learner.heads[2](plain_streams(learner, x)[2]).argmax(1)
        assert bool((target < 0).any()) != mix_real
        truth = F.cross_entropy(plain_outputs(learner, x), torch.where(target < 0, guess, target))
        assert task_loss.item() == pytest.approx(float(truth), rel=1e-4)


def log_softmax(values):
    top = max(values)
    total = top + math.log(sum(math.exp(v - top) for v in values))
    return [v - total for v in values]


@CASES
def test_answers_are_those_of_a_loop_over_images_and_tasks(method, backbone):
    learner, tasks = after_two(method, backbone)
    x = torch.cat([task.test.x[:4] for task in tasks[:2]])
    with torch.no_grad():  # so little trained, it would put all images into one task
        learner.task_classifier.out.weight.mul_(30)
        learner.task_classifier.out.bias.sub_(plain_outputs(learner, x).mean(0))
    with torch.no_grad():
        answers = learner.answers(x)
    assert list(answers) == ["argmax", "joint"]
    plain = dense(learner)
    chosen_at_all = set()
    for i in range(len(x)):
        with torch.no_grad():
            features = [plain.backbone(plain.input(x[i : i + 1]), t).features for t in range(2)]
            hidden = F.relu(plain.task_classifier.squeeze(torch.cat(features, dim=1)))
            of_task = log_softmax(plain.task_classifier.out(hidden)[0].tolist())
            of_class = [log_softmax(head(f)[0].tolist()) for head, f in zip(plain.heads, features, strict=True)]
        chosen = of_task.index(max(of_task))
        chosen_at_all.add(chosen)
        argmax = [v if t == chosen else -math.inf for t, part in enumerate(of_class) for v in part]
        joint = [v + of_task[t] for t, part in enumerate(of_class) for v in part]
        assert answers["argmax"][i].tolist() == pytest.approx(argmax, abs=1e-3)
        assert answers["joint"][i].tolist() == pytest.approx(joint, abs=1e-3)
        outside = [t != chosen for t, part in enumerate(of_class) for _ in part]
        assert torch.isneginf(answers["argmax"][i]).tolist() == outside
    torch.testing.assert_close(answers["joint"].exp().sum(1), torch.ones(len(x)))
    assert chosen_at_all == {0, 1}, "one task is always chosen: the test would prove little"


@pytest.mark.parametrize("inference", ["argmax", "joint"])
def test_predict_follows_the_inference_asked_for(inference):
    learner, tasks = after_two(inference=inference)
    with torch.no_grad():
        predicted, answers = learner.predict(tasks[0].test.x, None), learner.answers(tasks[0].test.x)
    assert learner.inference == inference
    assert torch.equal(predicted, answers[inference])
    assert not torch.equal(answers["argmax"], answers["joint"])


@METHODS
def test_with_the_task_given_the_task_classifier_has_no_say(method):
    learner, tasks = after_two(method, inference="joint")
    x = tasks[0].test.x
    with torch.no_grad():
        given, without = [learner.predict(x, t) for t in range(2)], learner.predict(x, None)
        for p in learner.task_classifier.parameters():
            p.normal_(0, 5)
        assert all(torch.equal(learner.predict(x, t), given[t]) for t in range(2))
        assert not torch.equal(learner.predict(x, None), without)


# -- compact streams -----------------------------------------------------------------------------------------------


def computed(learner, x, task):
    """Channels that every layer reads and writes in one pass."""
    seen = {}
    hooks = [
        layer.register_forward_hook(
            lambda _, args, out, name=name: seen.__setitem__(name, (args[0].shape[1], out[0].shape[1]))
        )
        for name, layer in learner.gated.items()
    ]
    with torch.no_grad():
        learner.predict(x, task)
    for hook in hooks:
        hook.remove()
    return seen


@SHAPES
def test_a_past_stream_computes_what_it_can_open_and_answers_as_if_it_computed_all(backbone):
    learner, tasks = after_two(backbone=backbone)
    names = {id(layer): name for name, layer in learner.gated.items()}
    cut = 0
    for t in range(2):
        widths = computed(learner, tasks[t].test.x, t)
        for g, group in enumerate(learner.backbone.channels):
            width = max(1, int(can_open(learner, g, t).sum()))
            assert {widths[names[id(w)]][1] for w in group.writers} == {width}
            assert {widths[names[id(r)]][0] for r in group.readers} <= {width}
            cut += group.writers[0].width - width
        plain = dense(learner)
        full = computed(plain, tasks[t].test.x, t)
        assert all(full[name][1] == layer.width for name, layer in plain.gated.items())
        for images in (tasks[0].test.x, tasks[1].test.x, tasks[2].test.x):
            with torch.no_grad():
                torch.testing.assert_close(learner.predict(images, t), plain.predict(images, t), rtol=1e-5, atol=1e-5)
    assert cut > 0, "every channel can open: the test would prove nothing"


@SHAPES
def test_without_the_seal_nothing_is_cut(backbone):
    learner, tasks = after_two(backbone=backbone, seal=False)
    for t in range(2):
        widths = computed(learner, tasks[t].test.x, t)
        assert all(widths[name][1] == layer.width for name, layer in learner.gated.items())


# -- the audit -----------------------------------------------------------------------------------------------------


@functools.cache
def _audited():
    torch.manual_seed(0)
    promises, verdicts = [], []
    for learner, seen in walk(experiment_of("ccgn-episodic", random_translate=1)):
        promises.append(promise(learner, seen))
        verdicts.append(audit(learner, seen, promises))
    return learner, seen, promises, verdicts


def test_every_stream_on_every_tasks_images_is_promised_exactly_once():
    _, _, promises, verdicts = _audited()
    pairs = collections.Counter(pair for made in promises for pair in made["streams"])
    assert pairs == {f"{stream} on {images}": 1 for stream in range(3) for images in range(3)}
    assert [len(made["streams"]) for made in promises] == [1, 3, 5]
    assert all(verdict.ok for verdict in verdicts), "streams moved when a later task was learnt"
    assert [verdict.streams for verdict in verdicts] == [1, 4, 9]
    assert "9 sets of stream features" in verdicts[-1].text()


def streams_in(verdict):
    return {broken for broken in verdict.broken if "stream into the task classifier" in broken}


def name(stream, images):
    return f"task {stream}: stream into the task classifier, on test images of task {images}"


@pytest.mark.parametrize("task", [0, 1])
def test_an_audit_names_the_streams_that_a_changed_filter_moves(task):
    learner, tasks, promises, _ = _audited()
    learner = copy.deepcopy(learner)
    last = learner.backbone.conv3
    with torch.no_grad():
        fires = learner.backbone(learner.input(tasks[task].test.x), task).gates[-1].sum(0)
        mine = torch.nonzero((last.owner == task) & (fires > 0)).flatten()
        last.bias[mine[0]] += 1.0
    verdict = audit(learner, tasks, promises)
    assert not verdict.ok
    assert name(task, task) in streams_in(verdict)
    assert all(int(broken.split(":")[0][5:]) >= task for broken in streams_in(verdict)), (
        "earlier streams have no such filter"
    )


@pytest.mark.parametrize("layer", ["conv1", "conv2", "conv3"])
def test_an_audit_names_the_stream_of_a_changed_gate(layer):
    learner, tasks, promises, _ = _audited()
    learner = copy.deepcopy(learner)
    with torch.no_grad():
        learner.gated[layer].gate(1).excite.weight.neg_()
    moved = streams_in(audit(learner, tasks, promises))
    assert moved
    assert moved <= {name(1, images) for images in range(3)}, "the gate is in one stream alone"


def test_what_is_free_and_the_task_classifier_are_in_no_promise():
    learner, tasks, promises, _ = _audited()
    learner = copy.deepcopy(learner)
    with torch.no_grad():
        for layer in learner.gated.values():
            layer.weight[~layer.locked] += 100.0
        for p in learner.task_classifier.parameters():
            p.normal_()
    assert audit(learner, tasks, promises).ok


# -- resume --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "random_translate"),
    [("ccgn-episodic", 0), ("ccgn-episodic", 1), ("ccgn-generative", 0), ("ccgn-generative", 1)],
)
def test_a_resumed_learner_rehearses_on_the_same_pool_bit_for_bit(method, random_translate):
    first, tasks = after_two(method, random_translate=random_translate, targets="class")
    structure, state = first.structure(), copy.deepcopy(first.state_dict())
    torch.manual_seed(7)
    first.begin_task(tasks[2])
    first.train()
    pools = []
    for epoch in range(3):
        first.epoch = epoch
        pools.append(first.pool())
    second = build_learner(
        experiment_of(method, random_translate=random_translate, targets="class"), tuple(tasks[0].train.x.shape[1:])
    )
    second.rebuild(structure)
    second.load_state_dict(state)
    torch.manual_seed(7)
    second.begin_task(tasks[2])
    second.load_state_dict(first.state_dict())
    second.epoch = 2
    torch.rand(5)  # wherever the random state is
    again = second.pool()
    assert pools[2].nameless == again.nameless == (method == "ccgn-generative")
    assert all(torch.equal(a, b) for a, b in zip(pools[2], again, strict=True) if isinstance(a, torch.Tensor))
    changes = random_translate > 0 or method == "ccgn-generative"
    assert torch.equal(pools[1].x, pools[2].x) != changes

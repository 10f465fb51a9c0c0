"""From the records of a run to tables for the terminal, self-contained HTML pages and SVG.

Nothing here imports torch: a report can be written on any machine that holds the run folder.

    schema       what a run leaves behind, as frozen dataclasses
    load         reads a run folder into them
    formatting   numbers and verdicts as text
    terminal     tables for the terminal
    svg          the few drawing primitives
    charts       the charts made of them; gate_figure, firing probabilities of gates
    html         base.html + page.html -> run/report.html
    comparison   several runs side by side on one page

The paper's numbers, and ours beside them, are in ``reproduction``.
"""

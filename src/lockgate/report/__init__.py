"""Records in, words and pictures out: plain-text tables for the terminal and one self-contained HTML page per run.

Nothing here imports torch: a report can be written on any machine that holds the run folder.

    schema    what a run leaves behind, as frozen dataclasses; records reads a run folder into them
    words     numbers and verdicts as a reader wants them
    text      tables for the terminal
    svg       the few drawing primitives; figures, the charts made of them
    page      page.html + style.html -> run/report.html
"""

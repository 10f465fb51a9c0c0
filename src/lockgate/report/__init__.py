"""Records in, words and pictures out: tables for the terminal, self-contained HTML pages, Markdown, CSV and SVG.

Nothing here imports torch: a report can be written on any machine that holds the run folder.

    schema    what a run leaves behind, as frozen dataclasses; records reads a run folder into them
    words     numbers and verdicts as a reader wants them
    text      tables for the terminal
    svg       the few drawing primitives; figures, the charts made of them
    page      base.html + page.html -> run/report.html; runs_page, several runs side by side
    paper     every published number; results, ours beside them; tables, exhibit_figures and exhibit_page show them
"""

// Light or dark as the reader's system is, like the drawings.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.setAttribute("data-md-color-scheme", dark.matches ? "slate" : "default");
dark.addEventListener("change", follow);
follow();

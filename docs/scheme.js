// Light or dark as the reader's system is, like the drawings.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.setAttribute("data-md-color-scheme", dark.matches ? "slate" : "default");
dark.addEventListener("change", follow);
follow();

// A line may break before a flag, never inside it: `--dataset mnist`, not `-` and `-dataset mnist`.
for (const code of document.querySelectorAll(".md-typeset :not(pre) > code")) {
  if (code.children.length || !/(^|\s)-/.test(code.textContent)) continue;
  const words = code.textContent.split(/(\s+)/).map((word) => {
    if (!word.startsWith("-")) return word;
    const flag = document.createElement("span");
    flag.className = "flag";
    flag.textContent = word;
    return flag;
  });
  code.replaceChildren(...words);
}

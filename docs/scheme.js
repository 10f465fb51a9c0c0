// Light or dark as the reader's system is, like the drawings.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.setAttribute("data-md-color-scheme", dark.matches ? "slate" : "default");
dark.addEventListener("change", follow);
follow();

// A line may break before a flag or a name, never inside it: `--method ccgn-episodic`, not `ccgn-` and `episodic`.
for (const code of document.querySelectorAll(".md-typeset :not(pre) > code")) {
  if (code.children.length || !code.textContent.includes("-")) continue;
  const words = code.textContent.split(/(\s+)/).map((word) => {
    if (!word.includes("-") || word.length > 28) return word;
    const flag = document.createElement("span");
    flag.className = "flag";
    flag.textContent = word;
    return flag;
  });
  code.replaceChildren(...words);
}

// A column of short cells stays on a line, one of sentences keeps a width that can be read: tables scroll by themselves.
// In a table of many columns the first, which says what a row is, stays in view.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const rows = [...table.rows];
  const columns = rows[0]?.cells.length ?? 0;
  for (let column = 0; column < columns; column++) {
    const cells = rows.map((row) => row.cells[column]).filter(Boolean);
    const longest = Math.max(...cells.filter((cell) => cell.tagName === "TD").map((cell) => cell.textContent.length));
    for (const cell of cells) {
      cell.classList.toggle("short", longest <= 18);
      cell.classList.toggle("long", longest > 80 && columns > 2 && column > 0);
      cell.classList.toggle("stays", longest <= 28 && columns > 2 && column === 0);
    }
  }
  for (const code of table.querySelectorAll("code")) {
    if (/^\S{1,24}$/.test(code.textContent)) code.classList.add("flag");
  }
}

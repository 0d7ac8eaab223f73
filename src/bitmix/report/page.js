"use strict";
(() => {
  const root = document.documentElement;

  // Theme: that of the system until the button is pressed; remembered if the browser allows it.
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("bitmix-theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  if (stored() === "dark" || stored() === "light") root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("bitmix-theme", root.dataset.theme); } catch { /* private window */ }
    label();
  });
  system.addEventListener("change", label);
  label();

  // A click on a heading sorts a table, first ascending, then descending. Equal rows keep their order.
  const key = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true });
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => head.querySelector("button")?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(key(a, at), key(b, at)));
      table.tBodies[0].append(...rows);
    }));
  }

  // Details of a mark are shown at the pointer, or with the arrow keys if its chart has the focus.
  const tip = document.getElementById("tip");
  let shown = null, byKey = false;
  const hide = () => { shown?.classList.remove("active"); shown = null; byKey = false; tip.hidden = true; };
  const show = (mark, x, y) => {
    if (shown !== mark) { hide(); tip.textContent = mark.dataset.tip; }
    shown = mark;
    mark.classList.add("active");
    tip.hidden = false;
    const wide = tip.offsetWidth, room = root.clientWidth - wide - 8;
    tip.style.left = `${Math.max(8, Math.min(x - wide / 2, room))}px`;
    tip.style.top = `${y - tip.offsetHeight - 12 < 8 ? y + 18 : y - tip.offsetHeight - 12}px`;
  };
  const centre = (mark) => {
    const at = mark.getBoundingClientRect();
    show(mark, at.left + at.width / 2, at.top);
    byKey = true;
  };
  for (const svg of document.querySelectorAll("svg[tabindex]")) {
    const marks = [...svg.querySelectorAll(".mark")];
    for (const mark of marks) {
      const title = mark.querySelector("title");
      mark.dataset.tip = title.textContent;
      title.remove(); // otherwise the browser shows a second tooltip
    }
    svg.addEventListener("pointermove", (event) => {
      const mark = event.target.closest(".mark");
      if (mark) show(mark, event.clientX, event.clientY); else hide();
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) centre(marks[0]); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hide(); return; }
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const at = marks.indexOf(shown);
      centre(marks[(at + step + marks.length) % marks.length]);
    });
  }
  addEventListener("scroll", () => { if (byKey) centre(shown); else hide(); }, { passive: true });

  // Printed pages show all details.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
})();

"use strict";
(() => {
  const body = document.querySelector("#table tbody"), rows = [...body.rows];
  const filter = document.querySelector("#filter"), only = document.querySelector("#only");
  const count = document.querySelector("#count");
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  // Numbers before text, what is empty last in either order.
  const compare = (a, b, sign) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  };
  document.querySelectorAll("#table thead th").forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      document.querySelectorAll("#table thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      rows.sort((a, b) => compare(value(a, column), value(b, column), sign));
      body.append(...rows);
    });
  });
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const stays = (!only.checked || row.classList.contains("selected")) &&
        row.textContent.toLowerCase().includes(wanted);
      row.hidden = !stays;
      shown += stays;
    }
    count.textContent = `${shown.toLocaleString("en")} ${shown === 1 ? "row" : "rows"}`;
  };
  filter.addEventListener("input", show);
  only.addEventListener("change", show);
  // A point of a plot says which feature it is, and leads to its row though that be filtered out.
  document.querySelectorAll(".plot a").forEach((link) => {
    const target = link.getAttribute("xlink:href") || link.getAttribute("href");
    const row = target && document.getElementById(target.slice(1));
    if (!row) return;
    const heads = [...document.querySelectorAll("#table thead th")].map((head) => head.textContent);
    const name = row.cells[Math.max(0, heads.indexOf("name"))].textContent;
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `${name}, rank ${row.cells[0].textContent}`;
    link.prepend(title);
    link.setAttribute("aria-label", title.textContent);
    link.addEventListener("click", () => { filter.value = ""; only.checked = false; show(); });
  });
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => { one.open = false; });
  });
})();

// The page's theme: what was chosen before, else what the system prefers.
const root = document.documentElement;
const wanted = new URLSearchParams(location.search).get("theme") || (() => {
  try { return localStorage.getItem("notleader-theme"); } catch { return null; }
})();
root.dataset.theme = wanted || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

// Figures name their colours `var:--name`; the style sheet says what that is in this theme.
function themed(value, style) {
  if (typeof value === "string" && value.startsWith("var:")) return style.getPropertyValue(value.slice(4)).trim();
  if (Array.isArray(value)) return value.map((item) => themed(item, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, style)]));
  }
  return value;
}

// A figure's buttons are drawings: Tab reaches them, and Enter and the space bar press them.
function reachable(figure) {
  const buttons = () => figure.querySelectorAll(".updatemenu-button");
  buttons().forEach((button, place) => {
    button.setAttribute("tabindex", "0");
    button.setAttribute("role", "button");
    button.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      buttons()[place].focus(); // it was drawn anew
    };
  });
}

function draw() {
  const style = getComputedStyle(root);
  const colour = (name) => style.getPropertyValue(name).trim();
  const figures = JSON.parse(document.getElementById("figures").textContent);
  for (const [name, figure] of Object.entries(figures)) {
    const layout = themed(figure.layout, style);
    layout.paper_bgcolor = layout.plot_bgcolor = colour("--paper");
    layout.font = { color: colour("--soft"), family: getComputedStyle(document.body).fontFamily, size: 12 };
    layout.hoverlabel = { bgcolor: colour("--ground"), bordercolor: colour("--line"), font: { color: colour("--ink") } };
    for (const axis of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
      layout[axis] = { gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--grid"), ...layout[axis] };
    }
    for (const menu of layout.updatemenus || []) {
      menu.bgcolor = colour("--ground");
      menu.bordercolor = colour("--line");
      menu.font = { color: colour("--ink"), size: 12 };
    }
    Plotly.react(`figure-${name}`, themed(figure.data, style), layout, { responsive: true, displayModeBar: false })
      .then((drawn) => { reachable(drawn); drawn.removeAllListeners("plotly_afterplot"); drawn.on("plotly_afterplot", () => reachable(drawn)); });
  }
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("notleader-theme", root.dataset.theme); } catch { /* a file:// page may not keep things */ }
  draw();
});

"use strict";
// Draws every chart of the page in the reader's theme, and again when the theme changes.
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const palettes = JSON.parse(document.getElementById("palettes").textContent);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const logarithmic = new Set();
  let chosen = null; // the reader's own choice, if any

  const theme = () => chosen ?? (system.matches ? "dark" : "light");

  // Of many labels every second is enough on a narrow screen; the last one always stands.
  const thin = (axis, width) => {
    if (axis.tickvals?.length > 6 && width < 520) {
      const keep = (_, index) => (axis.tickvals.length - 1 - index) % 2 === 0;
      return { ...axis, tickvals: axis.tickvals.filter(keep), ticktext: axis.ticktext.filter(keep) };
    }
    return axis;
  };

  const draw = (place) => {
    const index = Number(place.dataset.chart);
    const colours = palettes[theme()];
    const text = JSON.stringify(charts[index]).replace(/\$([a-z]+)\$/g, (_, name) => colours[name] ?? colours.other);
    const { data, layout } = JSON.parse(text);
    const axis = { gridcolor: colours.grid, zerolinecolor: colours.grid, linecolor: colours.grid, automargin: true };
    const y = { ...axis, ...layout.yaxis };
    if (logarithmic.has(index)) y.type = "log";
    y.title.standoff = 10;
    if (y.type === "log") y.exponentformat = "none";
    const narrow = place.clientWidth < 520;
    return Plotly.react(place, data, {
      ...layout,
      xaxis: { ...axis, tickangle: 0, ...thin(layout.xaxis, place.clientWidth) },
      yaxis: { separatethousands: true, ...y },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colours.ink, family: "system-ui, sans-serif", size: narrow ? 11 : 12 },
      margin: { l: 56, r: 12, t: 12, b: layout.xaxis.title?.text ? 44 : 24 },
      showlegend: (layout.showlegend ?? true) && !(narrow && layout.legend),
      legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", traceorder: "normal", ...layout.legend },
      hovermode: "x unified",
      hoverlabel: { bgcolor: colours.card, bordercolor: colours.grid, font: { color: colours.ink } },
      dragmode: coarse ? false : "zoom",
    }, {
      displaylogo: false,
      responsive: true,
      displayModeBar: false,
    });
  };

  const drawAll = () => {
    root.dataset.theme = theme();
    const places = [...document.querySelectorAll(".chart")];
    return Promise.all(places.map(draw)).then(() => { root.dataset.drawn = String(places.length); });
  };

  const fail = (message) => { root.dataset.error = message; };
  addEventListener("error", (event) => fail(event.message));
  addEventListener("unhandledrejection", (event) => fail(String(event.reason)));
  document.addEventListener("securitypolicyviolation", (event) => fail("blocked " + event.blockedURI));

  document.getElementById("theme").addEventListener("click", () => {
    chosen = theme() === "dark" ? "light" : "dark";
    drawAll();
  });
  system.addEventListener("change", () => { if (!chosen) drawAll(); });
  for (const button of document.querySelectorAll("button[data-log]")) {
    button.addEventListener("click", () => {
      const index = Number(button.dataset.log);
      const on = !logarithmic.delete(index);
      if (on) logarithmic.add(index);
      button.setAttribute("aria-pressed", String(on));
      draw(document.querySelector(`.chart[data-chart="${index}"]`));
    });
  }
  drawAll();
})();

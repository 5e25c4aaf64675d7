// Time series charts, drawn by uPlot.
import { t } from '/page/common.js';

const HEIGHT = 170;

export const clockTime = (s) => new Date(s * 1000).toLocaleTimeString(document.documentElement.lang, { hour12: false });

/** Draws `data` (times in seconds, then one row per line) into an element. Returns the plot; pass it to the next call. */
export function draw(plot, element, data, lines) {
  const width = element.clientWidth;
  if (!width || !data || data[0].length < 2) return plot;
  if (plot && plot.series.length === data.length) {
    if (plot.width !== width) plot.setSize({ width, height: HEIGHT });
    plot.setData(data);
    return plot;
  }
  plot?.destroy();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const axis = { stroke: color('soft'), grid: { stroke: color('line') }, ticks: { stroke: color('line') } };
  // Wide enough that labels do not overlap.
  const time = { ...axis, space: 80, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300], values: (_, moments) => moments.map(clockTime) };
  const series = lines.map(({ word, name, dash }) => ({ label: t(word), stroke: color(name), dash, width: 2, points: { show: false } }));
  return new uPlot({
    width, height: HEIGHT, axes: [time, { ...axis, size: 60 }], series: [{}, ...series],
    legend: { show: false }, cursor: { show: false }, scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
  }, data, element);
}

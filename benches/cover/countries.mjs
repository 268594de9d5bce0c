// Writes the country polygons of world-atlas (Natural Earth, 1:50m) as one GeoJSON geometry a line, and times
// @mapbox/tile-cover on them: the last line of standard error is the median of the rounds in milliseconds and the tiles.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { feature } = require("topojson-client");
const { tiles } = require("@mapbox/tile-cover");

const [, , file, zoom, rounds] = process.argv;
const atlas = JSON.parse(readFileSync(require.resolve("world-atlas/countries-50m.json")));
const countries = feature(atlas, atlas.objects.countries).features.map((country) => country.geometry).filter(Boolean);
writeFileSync(file, countries.map((geometry) => JSON.stringify(geometry)).join("\n"));

const limits = { min_zoom: Number(zoom), max_zoom: Number(zoom) };
const times = [];
let count = 0;
for (let round = 0; round < Number(rounds); round++) {
  const start = process.hrtime.bigint();
  count = countries.reduce((sum, geometry) => sum + tiles(geometry, limits).length, 0);
  times.push(Number(process.hrtime.bigint() - start) / 1e6);
}
times.sort((a, b) => a - b);
console.log(JSON.stringify({ ms: times[times.length >> 1], tiles: count }));

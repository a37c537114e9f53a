// Chooses the cheapest threshold for the costs that the sliders say. It reads and writes nothing outside their box.
"use strict";
document.documentElement.classList.add("scripted");

function digits(value) { return String(Number(value.toPrecision(4))); }

function choose(box) {
  const [wrong, missed] = [...box.querySelectorAll("input")].map((slider) => {
    const cost = Number(slider.dataset.cost) * 10 ** (2 * Number(slider.value) / Number(box.dataset.steps));
    const shown = slider.value === "0" ? String(Number(slider.dataset.cost)) : String(Number(cost.toPrecision(2)));
    slider.setAttribute("aria-valuetext", shown);
    slider.parentElement.querySelector("output").textContent = shown;
    return Number(shown);
  });
  const [positives, negatives] = [Number(box.dataset.positives), Number(box.dataset.negatives)];
  const calibrated = wrong / (wrong + missed);
  let best = null;
  for (const [threshold, ones, zeros] of JSON.parse(box.dataset.candidates)) {
    const cost = (wrong * zeros + missed * (positives - ones)) / (positives + negatives);
    const distance = Math.abs(threshold - calibrated);
    if (!best || cost < best.cost || (cost === best.cost && distance < best.distance))
      best = { threshold, ones, zeros, cost, distance };
  }
  const taken = best.ones + best.zeros;
  box.querySelector(".found").textContent = `Cheapest threshold ${digits(best.threshold)}: ` +
    `cost a sample ${digits(best.cost)}, precision ${digits(taken ? best.ones / taken : 0)}, ` +
    `recall ${digits(positives ? best.ones / positives : 0)}; ${best.zeros.toLocaleString("en-US")} false positives, ` +
    `${(positives - best.ones).toLocaleString("en-US")} false negatives.`;
}

document.addEventListener("input", (event) => {
  const box = event.target.closest(".costs");
  if (box) choose(box);
});

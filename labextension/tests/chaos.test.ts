import { describe, expect, it } from "vitest";

import type { RunInfo } from "../src/view/model";
import { Headline } from "../src/view/headline";
import { Status } from "../src/view/status";
import { eachOnItsOwnPage, type Fixture } from "./controls-fixture";
import { entered, worker } from "./fakes";

let on: Fixture;
eachOnItsOwnPage((fixture) => {
  on = fixture;
});

describe("chaos", () => {
  const button = (label: string): HTMLElement =>
    on.find(`[data-tos="chaos"] button[aria-label="${label}"]`);

  it("is closed until somebody opens it, and says how it ends", () => {
    on.show();
    expect(on.find<HTMLDetailsElement>('[data-tos="chaos"]').open).toBe(false);
    expect(on.find('[data-tos="chaos"]').textContent).toContain("after 60 s");
  });

  it("slows the worker that was chosen, for a limited time", () => {
    on.show();
    const [who, factor] = ["select", "input"].map((tag) =>
      on.find<HTMLInputElement>(`[data-tos="chaos"] ${tag}`),
    );
    who.value = "worker:1";
    factor.value = "2.5";
    button("Slow the worker").click();
    expect(on.sent).toEqual([["chaos", { what: "slow", amount: 2.5, worker: 1, for_seconds: 60 }]]);
  });

  it("kills where Spark tries a task again, and offers executors too", () => {
    on.show();
    button("Kill the worker").click();
    expect(button("Kill the worker").title).toContain("does not retry tasks on local[2]");
    on.show({ master: "local[2,4]" });
    on.find<HTMLSelectElement>('[data-tos="chaos"] select').value = "executor:0";
    button("Kill the worker").click();
    expect(on.sent).toEqual([["chaos", { what: "kill", executor: "0" }]]);
  });

  it("keeps the choice while workers come and go", () => {
    on.show();
    const who = on.find<HTMLSelectElement>('[data-tos="chaos"] select');
    who.value = "worker:1";
    on.model.workers = [worker(0), worker(1), worker(2)];
    on.controls.draw(on.model);
    expect([...who.options].map(({ value }) => value).slice(0, 3)).toEqual([
      ...["worker:0", "worker:1", "worker:2"],
    ]);
    expect(who.value).toBe("worker:1");
    on.model.workers = [worker(0), worker(1, { state: "done" })];
    on.controls.draw(on.model);
    expect(who.value).toBe("worker:0");
  });

  it("can be taken back while it is on, and only then", () => {
    on.show();
    expect(button("Chaos off").getAttribute("aria-disabled")).toBe("true");
    button("Chaos off").click();
    expect(on.sent).toEqual([]);
    on.show({ chaos: ["partition 1: 5 times slower"] });
    expect(button("Chaos off").getAttribute("aria-disabled")).toBe("false");
    button("Chaos off").click();
    expect(on.sent).toEqual([["chaos", { what: "off" }]]);
  });

  it("has a note on what became of it", () => {
    on.show({ master: "spark://head:7077" });
    button("Kill the worker").click();
    on.controls.answer(1, { ok: false, text: "Spark does not try again." });
    expect(on.find('[data-tos="chaos"] .tos-note').textContent).toBe(
      "refused: Spark does not try again.",
    );
    on.show({}, [entered({ command: "chaos", detail: "partition 1: killed", stage: "asked" })]);
    expect(on.find('[data-tos="chaos"] .tos-note').textContent).toBe(
      "asked (partition 1: killed); applies at each worker's next milestone",
    );
  });

  it("is of no use once the run stops", () => {
    on.show({ state: "stopping", chaos: ["partition 1: 5 times slower"] });
    for (const name of ["Slow the worker", "Kill the worker", "Chaos off"]) {
      expect(button(name).getAttribute("title")).toBe("the run is stopping");
      button(name).click();
    }
    expect(on.sent).toEqual([]);
  });

  it("stands in the header, and is spoken, while it is on", () => {
    const header = new Headline(() => undefined);
    const badge = header.element.querySelector<HTMLElement>('[data-tos="chaos-badge"]');
    const rule = "partition 1: 5 times slower";
    const drawn = (run: Partial<RunInfo>): string => {
      on.show(run);
      header.draw(on.model);
      return badge?.hidden ? "hidden" : (badge?.title ?? "");
    };
    expect(drawn({})).toBe("hidden");
    expect(drawn({ chaos: [rule] })).toBe(rule);
    expect(badge?.textContent).toBe("⚠ chaos");
    expect(on.find('[data-tos="waits"]').textContent).toBe(`⚠ chaos is on: ${rule}`);
    const status = new Status();
    status.draw(on.model, "", 0);
    expect(status.element.textContent).toContain("chaos is on");
    expect(drawn({ chaos: [rule], state: "finished" })).toBe("hidden");
    status.draw(on.model, "", 0);
    expect(status.element.textContent).not.toContain("chaos");
  });
});

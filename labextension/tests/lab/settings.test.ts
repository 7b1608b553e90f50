import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import { Signal } from "@lumino/signaling";
import { afterEach, describe, expect, it, vi } from "vitest";

import schema from "../../schema/plugin.json";
import { DEFAULTS, SettingsModel } from "../../src/lab/settings";

function registry(composite: object): { registry: ISettingRegistry; change: (to: object) => void } {
  const settings = { composite, changed: new Signal<object, void>({}) };
  return {
    registry: { load: () => Promise.resolve(settings) } as unknown as ISettingRegistry,
    change: (to) => {
      settings.composite = to;
      settings.changed.emit();
    },
  };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("the settings", () => {
  it("are the schema's where there is no registry", async () => {
    const { current } = await SettingsModel.load(null, "id");
    const { properties } = schema;
    const defaults = Object.entries(properties).map(([name, property]) => [name, property.default]);
    expect(current).toEqual(Object.fromEntries(defaults));
  });

  it("follow what people change", async () => {
    const { registry: one, change } = registry({ axis: "epoch" });
    const model = await SettingsModel.load(one, "id");
    expect(model.current).toEqual({ ...DEFAULTS, axis: "epoch" });
    const seen: unknown[] = [];
    model.changed.connect((_, settings) => seen.push(settings));
    change({ notify: "never", updateSeconds: 2 });
    expect(seen).toEqual([{ ...DEFAULTS, notify: "never", updateSeconds: 2 }]);
    expect(model.current).toEqual(seen[0]);
  });

  it("that do not obey the schema leave the defaults in force", async () => {
    const complaint = vi.spyOn(console, "error").mockReturnValue();
    const load = (): Promise<never> => Promise.reject(new Error("updateSeconds"));
    const broken = { load } as unknown as ISettingRegistry;
    expect((await SettingsModel.load(broken, "id")).current).toEqual(DEFAULTS);
    expect(complaint).toHaveBeenCalledOnce();
  });
});

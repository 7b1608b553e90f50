import { ServerConnection } from "@jupyterlab/services";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { SparkLink, sparkUi } from "../../src/lab/spark-ui";

const PAGE = "http://10.0.0.1:4040";

function server(answer: () => Promise<Response>) {
  const fetch = vi.fn<typeof window.fetch>(answer);
  const baseUrl = "https://hub.example/user/x/";
  return { fetch, ui: sparkUi(ServerConnection.makeSettings({ baseUrl, fetch })) };
}

const having = (status: number) => server(() => Promise.resolve(new Response("{}", { status })));

describe("Spark's pages", () => {
  it("are reached by the Jupyter server where it has a proxy, past the redirect from /", async () => {
    const { ui } = having(200);
    expect(await ui(PAGE)).toBe("https://hub.example/user/x/proxy/4040/jobs/");
    expect(await ui("http://[::1]:4041/")).toBe("https://hub.example/user/x/proxy/4041/jobs/");
  });

  it("are else where the kernel says", async () => {
    expect(await having(404).ui(PAGE)).toBe(PAGE);
    expect(await server(() => Promise.reject(new TypeError("offline"))).ui(PAGE)).toBe(PAGE);
  });

  it("cost one question to the server", async () => {
    const { fetch, ui } = having(404);
    await Promise.all([ui(PAGE), ui(PAGE)]);
    await ui("http://10.0.0.1:4041");
    expect(fetch).toHaveBeenCalledOnce();
    const [request] = fetch.mock.calls[0];
    expect((request as Request).url).toMatch(
      /^https:\/\/hub\.example\/user\/x\/server-proxy\/servers-info/,
    );
  });

  it("that the proxy cannot pass on are left as they are", async () => {
    const { fetch, ui } = having(200);
    expect(await ui("https://10.0.0.1:4440")).toBe("https://10.0.0.1:4440");
    expect(await ui("nonsense")).toBe("nonsense");
    expect(fetch).not.toHaveBeenCalled();
  });
});

describe("the link", () => {
  const settled = () => vi.advanceTimersByTimeAsync(0);

  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it("is hidden until it leads somewhere", async () => {
    const link = new SparkLink("Spark UI", (url) => Promise.resolve(`${url}/jobs/`));
    expect(link.element.hidden).toBe(true);
    link.point(PAGE);
    await settled();
    expect([link.element.hidden, link.element.href]).toEqual([false, `${PAGE}/jobs/`]);
    link.point(null);
    expect(link.element.hidden).toBe(true);
  });

  it("asks again only for another address, and the last one counts", async () => {
    const answers: ((url: string) => void)[] = [];
    const ui = vi.fn(() => new Promise<string>((resolve) => answers.push(resolve)));
    const link = new SparkLink("Spark UI", ui);
    link.point("http://a:1");
    link.point("http://a:1");
    link.point("http://b:2");
    expect(ui).toHaveBeenCalledTimes(2);
    answers[1]("http://b:2/");
    answers[0]("http://a:1/");
    await settled();
    expect(link.element.href).toBe("http://b:2/");
  });

  it("never becomes a script", async () => {
    const link = new SparkLink("Spark UI", (url) => Promise.resolve(url));
    link.point("javascript:alert(1)");
    await settled();
    expect(link.element.hidden).toBe(true);
    expect(link.element.hasAttribute("href")).toBe(false);
  });
});

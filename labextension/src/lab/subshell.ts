/**
 * What a kernel answers while a cell runs: requests on its control channel, and whatever is sent to
 * a subshell, a thread of its own.
 *
 * JupyterLab gives comms subshells too, but only after the kernel has told about itself on the main
 * shell: in a page that is reloaded while a cell runs, that is when the cell ends.
 */

import { type Kernel, KernelMessage } from "@jupyterlab/services";

/**
 * Milliseconds to wait for answers that take next to none: JupyterLab itself holds everything back
 * for three seconds where a kernel that it has just met is in a cell.
 */
const PATIENCE = 10_000;
/** As kernels name it among their features. */
const SUBSHELLS = "kernel subshells";

type Content = Record<string, unknown>;

/** Kernels of other languages need not know what may come on the control channel. */
export async function isPython(kernel: Kernel.IKernelConnection): Promise<boolean> {
  const spec = await kernel.spec.catch(() => undefined);
  return spec?.language === "python";
}

/** Whether the kernel has open comms of a target. */
export async function hasComms(kernel: Kernel.IKernelConnection, target: string): Promise<boolean> {
  const { comms } = await ask(kernel, "comm_info_request", { target_name: target });
  return Object.keys(comms ?? {}).length > 0;
}

export async function hasSubshells(kernel: Kernel.IKernelConnection): Promise<boolean> {
  const { supported_features: features } = await ask(kernel, "kernel_info_request", {});
  return Array.isArray(features) && features.includes(SUBSHELLS);
}

/** The id of a new subshell; null without one: then all goes to the kernel's main shell. */
export async function createSubshell(kernel: Kernel.IKernelConnection): Promise<string | null> {
  const { subshell_id } = await ask(kernel, "create_subshell_request", {});
  return typeof subshell_id === "string" ? subshell_id : null;
}

export function deleteSubshell(kernel: Kernel.IKernelConnection, id: string | null): void {
  if (id === null || kernel.isDisposed) return;
  void ask(kernel, "delete_subshell_request", { subshell_id: id });
}

/** Send a comm's message to a subshell. */
export function sendToComm(
  kernel: Kernel.IKernelConnection,
  msgType: "comm_open" | "comm_msg" | "comm_close",
  subshellId: string | null,
  content: Content,
): void {
  const { username, clientId: session } = kernel;
  const options = { msgType, channel: "shell", username, session, subshellId, content };
  kernel.sendShellMessage(message<KernelMessage.ShellMessageType>(options), false, true);
}

/** Ask on the control channel; nothing is answered by a kernel that is silent. */
async function ask(
  kernel: Kernel.IKernelConnection,
  msgType: string,
  content: Content,
): Promise<Content> {
  const { username, clientId: session } = kernel;
  const options = { msgType, channel: "control", username, session, content };
  try {
    const request = message<KernelMessage.ControlMessageType>(options);
    const future = kernel.sendControlMessage(request, true);
    const timer = setTimeout(() => {
      future.dispose();
    }, PATIENCE);
    const reply = await future.done.finally(() => {
      clearTimeout(timer);
    });
    return reply.content as Content;
  } catch {
    // The kernel is silent, has died or was restarted.
    return {};
  }
}

type OfType<T extends string> = T extends KernelMessage.ShellMessageType
  ? KernelMessage.IShellMessage<T>
  : T extends KernelMessage.ControlMessageType
    ? KernelMessage.IControlMessage<T>
    : never;

/** JupyterLab's types do not know that these requests may go elsewhere. */
function message<T extends string>(options: object): OfType<T> {
  return KernelMessage.createMessage(options as never) as unknown as OfType<T>;
}

"""Kernels that need not import: one process imports what most notebooks use, and each notebook's kernel is a fork of it.

  python tools/zygote.py SOCKET              the process that imports, once; it forks for every connection and ends with its parent
  python tools/zygote.py SOCKET -f FILE ...  a kernel, as jupyter starts one: FILE is the connection file, the rest is ipykernel's

A fork is a process of its own: what one notebook changes, no other sees. The package under test is not imported beforehand, so
that each notebook imports it as it is in its own environment. Without the first process (on Windows, or if it cannot be reached)
kernels start as usual.
"""

import importlib
import json
import os
import select
import signal
import socket
import sys
import threading

IMPORTED = (
    "numpy scipy.stats scipy.special scipy.optimize torch transformers transformers.models.llama.modeling_llama "
    "sentence_transformers langgraph.graph langsmith llama_index.core.node_parser qdrant_client matplotlib.pyplot "
    "matplotlib_inline.backend_inline httpx tqdm.auto yaml PIL.Image ipykernel.kernelapp IPython.display"
).split()


def be_a_kernel(talk: socket.socket, asked: dict) -> None:
    "In a fork: become the kernel that was asked for; end when whoever asked is gone."

    def watch():
        talk.recv(1)
        os.killpg(0, signal.SIGKILL)  # and what the notebook has started

    import tempfile

    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    tempfile.tempdir = None
    parent = (
        f"--IPKernelApp.parent_handle={os.getppid()}"  # its parent is not who asked
    )
    argv = [*asked["argv"], parent]
    sys.argv, sys.path[0] = ["ipykernel", *argv], ""
    threading.Thread(target=watch, daemon=True).start()
    IPKernelApp.launch_instance(argv)
    os._exit(0)


def end_with_stdin() -> None:
    "End this process as soon as stdin is closed, while it imports, too."
    while os.read(0, 1):
        pass
    os._exit(0)


def serve(path: str) -> None:
    "Import, then fork a kernel for each connection, until stdin closes."
    threading.Thread(target=end_with_stdin, daemon=True).start()
    for name in IMPORTED:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # an extra that is not installed: the notebooks that need it say so
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended kernels leave nothing behind
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    os.dup2(2, 1)
    while True:
        talk, _ = listener.accept()
        asked = json.loads(talk.makefile().readline())
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            be_a_kernel(talk, asked)
        talk.close()


def ask(path: str, argv: list) -> None:
    "Ask for a kernel and stay as long as it and the parent run: who starts and ends this process starts and ends the kernel."
    parent = os.getppid()
    talk = socket.socket(socket.AF_UNIX)
    try:
        talk.connect(path)
    except OSError:
        os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", *argv])
    asked = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ)}
    talk.sendall((json.dumps(asked) + "\n").encode())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent before the kernel is ended
    while os.getppid() == parent and not select.select([talk], [], [], 1)[0]:
        pass  # readable: the kernel has ended


if __name__ == "__main__":
    serve(sys.argv[1]) if len(sys.argv) == 2 else ask(sys.argv[1], sys.argv[2:])

"""Continue the newest run of a folder that has not finished.

python examples/resume.py --checkpoint-dir runs
"""

import argparse
import sys

import tos_notebook as tos
from tos_notebook.demo import bundled_digits
from train import build_model


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Continue a run that has not finished.")
    parser.add_argument("--master", help="by default that of spark-submit, or else local[*]")
    parser.add_argument("--checkpoint-dir", metavar="URI", required=True)
    parser.add_argument("--model", default="digits.keras", metavar="URI", help="(%(default)s)")
    return parser.parse_args()


def main() -> None:
    """Continue, save the model, and say how good it is."""
    given = options()
    spark = tos.connect(given.master)
    unfinished = [run for run in tos.runs(given.checkpoint_dir) if run.state != "finished"]
    if not unfinished:
        print(f"Nothing to continue in {given.checkpoint_dir}.")
        return
    run = tos.resume(unfinished[-1], spark=spark, program=build_model()).wait()
    saved = run.save(given.model)
    accuracy = run.evaluate(*bundled_digits().test)["accuracy"]
    print(f"{run.state}: test accuracy {accuracy:.3f}, model in {saved}")


if __name__ == "__main__":
    sys.exit(tos.run_script(main))

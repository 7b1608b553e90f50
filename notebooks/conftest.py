# For `pytest --nbval notebooks/`: training cells wait for the end of their run.
import os

os.environ.setdefault("TOS_NONINTERACTIVE", "1")

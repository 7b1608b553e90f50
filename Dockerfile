# JupyterLab with the course, and Spark inside of it:
#
#   docker build -t tos-notebook .
#   docker run --rm -p 127.0.0.1:8888:8888 tos-notebook
#
# For executors on Kubernetes see deploy/kubernetes/Dockerfile.
FROM python:3.11-bookworm AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/tos_notebook-*.whl)[demo,lab,tensorboard]" && rm -rf /wheels

RUN useradd --create-home learner
# The notebooks link to the pages.
COPY --chown=learner notebooks /home/learner/notebooks
COPY --chown=learner docs /home/learner/docs
USER learner
WORKDIR /home/learner
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "notebooks/00_first_steps.ipynb"]

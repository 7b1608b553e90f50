"""The manifests fit together, and Spark knows the settings that they and the manual name.

They cannot be tried here; what is checked is what goes wrong first.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from tos_notebook.cluster.executors import (
    DATA_LIMIT,
    DEPLOY_MODE,
    SERVER_HOST,
    SERVER_PORT,
    SERVER_TLS,
    WORKER_PORT,
)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
JARS = Path(pyspark.__file__).parent / "jars"

OPEN = ("spark.executorEnv.", "spark.hadoop.", "spark.yarn.appMasterEnv.")
"""What follows them is the user's choice."""

SETTING = re.compile(r"spark\.[a-z][A-Za-z]*(?:\.[A-Za-z]+)*")

OURS = (SERVER_HOST, SERVER_PORT, SERVER_TLS, DEPLOY_MODE, WORKER_PORT, DATA_LIMIT)


@pytest.fixture(scope="module")
def manifests() -> dict[str, Any]:
    """All objects, by their kind."""
    documents = (yaml.safe_load_all(path.read_text()) for path in FOLDER.glob("*.yaml"))
    objects = [each for document in documents for each in document]
    found = {each["kind"]: each for each in objects if each["kind"] != "NetworkPolicy"}
    found |= {each["metadata"]["name"]: each for each in objects if each not in found.values()}
    assert len(found) == len(objects)
    return found


@pytest.fixture(scope="module")
def settings(manifests: dict[str, Any]) -> dict[str, str]:
    """What ``spark-defaults.conf`` says."""
    lines = manifests["ConfigMap"]["data"]["spark-defaults.conf"].splitlines()
    pairs = (line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


@pytest.fixture(scope="module")
def known() -> bytes:
    """All constants of Spark's classes for settings, of its cluster managers, and of ours."""
    pattern = re.compile(
        r"org/apache/spark/(internal/config/|deploy/k8s/Config|deploy/yarn/config/|SparkConf\$|"
        r"network/util/TransportConf)"
    )
    found = [name.encode() for name in OURS]
    for name in ("core", "kubernetes", "network-common", "yarn"):
        (jar,) = JARS.glob(f"spark-{name}_*.jar")
        with zipfile.ZipFile(jar) as classes:
            found += [classes.read(n) for n in classes.namelist() if pattern.match(n)]
    return b"\n".join(found)


def unknown(text: str, known: bytes) -> set[str]:
    """Return the settings in a text that no constant spells."""
    named = {found for found in SETTING.findall(text) if not found.startswith(OPEN)}
    return {name for name in named if name.encode() not in known}


def test_spark_knows_every_setting_of_the_manifests(settings: dict[str, str], known: bytes) -> None:
    assert settings
    assert unknown("\n".join(settings), known) == set()


def test_spark_knows_every_setting_that_the_manual_names(known: bytes) -> None:
    text = (ROOT / "docs" / "how-to" / "clusters.md").read_text()
    assert len(SETTING.findall(text)) > 20
    # A method, not a setting.
    assert unknown(text, known) == {"spark.conf.set"}


def test_a_setting_that_spark_does_not_have_is_found(known: bytes) -> None:
    assert unknown("spark.driver.hots 1", known) == {"spark.driver.hots"}


def test_executors_find_the_driver_by_the_headless_service(
    manifests: dict[str, Any], settings: dict[str, str]
) -> None:
    service, pod = manifests["Service"], manifests["StatefulSet"]["spec"]["template"]
    meta = service["metadata"]
    assert service["spec"]["clusterIP"] == "None"
    assert settings["spark.driver.host"] == f"{meta['name']}.{meta['namespace']}.svc.cluster.local"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert manifests["StatefulSet"]["spec"]["serviceName"] == meta["name"]


def test_every_port_of_the_driver_is_fixed_and_exposed(
    manifests: dict[str, Any], settings: dict[str, str]
) -> None:
    fixed = {int(value) for key, value in settings.items() if key.endswith(".port")}
    (container,) = manifests["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert len(fixed) == 3
    assert fixed == {port["port"] for port in manifests["Service"]["spec"]["ports"]}
    assert fixed < {port["containerPort"] for port in container["ports"]}


def test_what_security_demands_of_spark_is_set(settings: dict[str, str]) -> None:
    page = (ROOT / "SECURITY.md").read_text()
    block = page.split("```")[1].strip().splitlines()
    demanded = dict(line.split() for line in block)
    assert len(demanded) == 4
    assert settings.items() >= demanded.items()


def test_no_pod_has_rights_that_training_does_not_need(manifests: dict[str, Any]) -> None:
    template = yaml.safe_load(manifests["ConfigMap"]["data"]["executor.yaml"])["spec"]
    for pod in (manifests["StatefulSet"]["spec"]["template"]["spec"], template):
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert "privileged" not in str(pod)


def test_only_executors_reach_the_drivers_ports(manifests: dict[str, Any]) -> None:
    (rule,) = manifests["tos-notebook"]["spec"]["ingress"]
    ports = {each["port"] for each in manifests["Service"]["spec"]["ports"]}
    assert {each["port"] for each in rule["ports"]} == ports
    (source,) = rule["from"]
    assert source["podSelector"]["matchLabels"] == {"spark-role": "executor"}


def test_an_image_gets_no_history_and_no_environment_of_this_machine() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv"} <= set(ignored)
    assert not {"notebooks", "docs", "tos_notebook", "README.md"} & set(ignored)


def test_executors_belong_to_the_notebooks_pod_and_have_its_image(
    manifests: dict[str, Any], settings: dict[str, str]
) -> None:
    pods = manifests["StatefulSet"]
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert settings["spark.kubernetes.driver.pod.name"] == f"{pods['metadata']['name']}-0"
    assert settings["spark.kubernetes.container.image"] == container["image"]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert {"name": "SPARK_CONF_DIR", "value": mounted["spark"]} in container["env"]


def test_what_a_notebook_saves_stays_when_its_pod_restarts(manifests: dict[str, Any]) -> None:
    pods = manifests["StatefulSet"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    (claim,) = pods["volumeClaimTemplates"]
    assert mounted[claim["metadata"]["name"]] == container["workingDir"]


def test_the_image_has_what_the_course_imports_and_the_course_itself() -> None:
    image = (FOLDER / "Dockerfile").read_text()
    assert "[demo,lab,tensorboard]" in image
    copied = re.findall(r"^COPY --chown=185:0 (\w+) ", image, re.MULTILINE)
    assert copied == ["notebooks", "docs"]
    assert all((ROOT / name).is_dir() for name in copied)
    # The notebooks import it from their own folder.
    assert (ROOT / "notebooks/tos_workshop/__init__.py").is_file()


def test_the_notebooks_account_may_start_and_remove_executors(
    manifests: dict[str, Any], settings: dict[str, str]
) -> None:
    account = manifests["StatefulSet"]["spec"]["template"]["spec"]["serviceAccountName"]
    binding, role = manifests["RoleBinding"], manifests["Role"]
    (subject,) = binding["subjects"]
    assert subject["name"] == manifests["ServiceAccount"]["metadata"]["name"] == account
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    verbs = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    assert verbs["pods"] >= {"create", "get", "list", "watch", "delete"}
    spaces = {each["metadata"].get("namespace") for each in manifests.values()} - {None}
    assert spaces == {settings["spark.kubernetes.namespace"]}

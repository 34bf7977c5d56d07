"""An operator of websites, written with the official client alone: a ConfigMap and one pod for each Website.

It is an example of an operator to be tested, and knows nothing of localcluster: `test_operator.py` does.
"""

import hashlib
import json
import threading

from kubernetes import client, config, watch

GROUP, VERSION, PLURAL = "example.com", "v1", "websites"
RETRY_SECONDS = 0.1


class Operator:
    """`run` reconciles until `stop` is called."""

    def __init__(self) -> None:
        self._sites = client.CustomObjectsApi()
        self._core = client.CoreV1Api()
        self._stopped = threading.Event()

    def run(self) -> None:
        """List and watch Websites; whatever goes wrong leads to a new list after a pause."""
        while not self._stopped.is_set():
            try:
                listed = self._sites.list_cluster_custom_object(GROUP, VERSION, PLURAL)
                for site in listed["items"]:
                    self._reconcile(site)
                self._follow(listed["metadata"]["resourceVersion"])
            except client.ApiException:
                self._stopped.wait(RETRY_SECONDS)

    def stop(self) -> None:
        """Let `run` return within a second or so."""
        self._stopped.set()

    @staticmethod
    def version_of(text: str) -> str:
        """The version of a text: it names the ConfigMap and the pod."""
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _follow(self, version: str) -> None:
        arguments = (GROUP, VERSION, PLURAL)
        events = watch.Watch().stream(
            self._sites.list_cluster_custom_object, *arguments, resource_version=version, timeout_seconds=1
        )
        for event in events:
            if event["type"] != "DELETED":
                self._reconcile(event["object"])

    def _reconcile(self, site: dict) -> None:
        meta = site["metadata"]
        name, namespace = meta["name"], meta["namespace"]
        text = site["spec"]["text"]
        version = self.version_of(text)
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Website", "name": name, "uid": meta["uid"], "controller": True}
        shared = {"namespace": namespace, "ownerReferences": [owner], "labels": {"website": name}}
        content = {"metadata": {"name": f"{name}-{version}", **shared}, "data": {"index.html": text}}
        volume = {"name": "content", "configMap": {"name": f"{name}-{version}"}}
        server = {"name": "server", "image": "nginx", "volumeMounts": [{"name": "content", "mountPath": "/srv"}]}
        pod = {"metadata": {"name": f"{name}-{version}", **shared}, "spec": {"containers": [server], "volumes": [volume]}}
        self._create(self._core.create_namespaced_config_map, namespace, content)
        self._create(self._core.create_namespaced_pod, namespace, pod)
        for old in self._core.list_namespaced_pod(namespace, label_selector=f"website={name}").items:
            if old.metadata.name != pod["metadata"]["name"] and old.metadata.deletion_timestamp is None:
                self._core.delete_namespaced_pod(old.metadata.name, namespace)
        if site.get("status", {}).get("version") != version:
            status = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"version": version}}
            self._sites.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, status)

    @staticmethod
    def _create(create, namespace: str, body: dict) -> None:
        try:
            create(namespace, body)
        except client.ApiException as error:
            if json.loads(error.body).get("reason") != "AlreadyExists":
                raise


if __name__ == "__main__":
    config.load_config()
    Operator().run()

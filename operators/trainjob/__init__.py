"""The TrainJob operator: jobs of Kubeflow Trainer, without its controller and without JobSet."""

"""Stories on machines: real kubelets and real containers, whose power, cable or programs fail."""

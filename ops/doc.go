// Package ops holds what an operator loads beside the workers: a Grafana
// dashboard, pawl-dashboard.json, and Prometheus alert rules, pawl-alerts.yaml.
// README.md tells how. Its tests hold both to the metrics that a worker emits
// through the OpenTelemetry SDK and its Prometheus exporter.
//
// It is a module of its own, so that neither of those comes into the module
// graph of an application that has another one, or none.
package ops

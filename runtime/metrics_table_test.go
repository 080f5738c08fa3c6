package runtime

// MetricNames lets tests outside the package see that none is left out.
func MetricNames() (all []string) {
	for _, i := range instruments {
		all = append(all, i.name)
	}
	return all
}

// MetricLabels are the labels that the series of a metric can have.
func MetricLabels(name string) []string { return instrumentOf(name).labels }

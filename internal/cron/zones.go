package cron

// Zones are known in a container image without them.
import _ "time/tzdata"

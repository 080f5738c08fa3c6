package fleet

import "math"

const earthRadiusM = 6_371_008.8

// Distance is the length in metres of the great circle between two points, by
// the haversine formula on a sphere.
func Distance(lat1, lon1, lat2, lon2 float64) float64 {
	const rad = math.Pi / 180
	sinLat := math.Sin((lat2 - lat1) * rad / 2)
	sinLon := math.Sin((lon2 - lon1) * rad / 2)
	h := sinLat*sinLat + math.Cos(lat1*rad)*math.Cos(lat2*rad)*sinLon*sinLon
	return 2 * earthRadiusM * math.Asin(math.Sqrt(min(1, h)))
}

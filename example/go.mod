module github.com/pawlgo/pawl/example

go 1.26.0

require github.com/pawlgo/pawl v0.0.0

replace github.com/pawlgo/pawl => ../

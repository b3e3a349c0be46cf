module github.com/getsetlock/getsetlock/adapters/river

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128090551-bc9b5d2ac32d
	github.com/riverqueue/river/rivertype v0.51.2
)

require golang.org/x/sys v0.49.0 // indirect

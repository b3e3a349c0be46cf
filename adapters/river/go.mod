module github.com/getsetlock/getsetlock/adapters/river

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/riverqueue/river/rivertype v0.51.2
)

require golang.org/x/sys v0.49.0 // indirect

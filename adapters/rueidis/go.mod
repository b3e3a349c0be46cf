module github.com/getsetlock/getsetlock/adapters/rueidis

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/gomodule/redigo v1.9.3 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

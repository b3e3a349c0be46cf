module github.com/getsetlock/getsetlock/adapters/goredis

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

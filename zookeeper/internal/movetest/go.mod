module github.com/getsetlock/getsetlock/zookeeper/internal/movetest

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/getsetlock/getsetlock/zookeeper v0.0.0-20261128133937-bf6154e2a70c
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/benbjohnson/clock v1.3.5 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

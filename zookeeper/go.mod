module github.com/getsetlock/getsetlock/zookeeper

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/go-zookeeper/zk v1.0.4
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

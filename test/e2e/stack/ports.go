package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports are chosen below those that the system gives to connections: a connection to a server that is just being
// restarted could be given the server's own port.
const lowestPort, highestPort = 20000, 32000

// choosePorts returns a free port for each name. Another program may take one before it is used; whoever uses it
// notices then.
func choosePorts(names ...string) (map[string]int, error) {
	ports := map[string]int{}
	taken := map[int]bool{}
	for _, name := range names {
		port, err := freePort(taken)
		if err != nil {
			return nil, fmt.Errorf("a port for %s: %w", name, err)
		}
		ports[name], taken[port] = port, true
	}
	return ports, nil
}

func freePort(taken map[int]bool) (int, error) {
	last := errors.New("none was free")
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if taken[port] {
			continue
		}
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, listener.Close()
		}
		if last = err; !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return 0, last
}

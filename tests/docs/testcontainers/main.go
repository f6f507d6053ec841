// What the page's functions do to a proxy: main HOST PORT ECHO
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	host, port, echo := os.Args[1], os.Args[2], os.Args[3]
	err := addFault(context.Background(), host, port, map[string]any{"kind": "drop_response", "name": "go"})
	if err == nil {
		err = slow(host, port, "127.0.0.1:0", echo)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	err = addFault(context.Background(), host, port, map[string]any{"kind": "nonsense"})
	fmt.Println("OK, and:", err)
}

//go:build tools

package main

// Toxiproxy's command line is built from this module too.
import _ "github.com/Shopify/toxiproxy/v2/cmd/cli"

// Runs scenarios with Apache Pulsar's client for Go. Each input line contains the name of a
// scenario, the broker's service and HTTP URLs, a prefix for topics, a token and a certificate's
// path ("-" for none). The program prints "ok", or "failed" and the reason.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

type scenario func(world *world)

var clients = map[string]pulsar.Client{}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(answer(strings.Split(lines.Text(), " ")))
	}
}

func answer(words []string) (story string) {
	story = "ok"
	world := newWorld(words[1], words[2], words[3])
	defer func() {
		if problem := recover(); problem != nil {
			story = "failed " + strings.ReplaceAll(fmt.Sprint(problem), "\n", " ")
		}
	}()
	defer world.close()
	world.client = client(words[1], words[4], words[5])
	scenarios[words[0]](world)
	return story
}

func client(url string, token string, certificate string) pulsar.Client {
	if known, found := clients[url+token]; found {
		return known
	}
	options := quiet(url)
	if token != "-" {
		options.Authentication = pulsar.NewAuthenticationToken(token)
	}
	if certificate != "-" {
		options.TLSTrustCertsFilePath = certificate
		options.TLSValidateHostname = true
	}
	made, err := pulsar.NewClient(options)
	must(err)
	clients[url+token] = made
	return made
}

func quiet(url string) pulsar.ClientOptions {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	if os.Getenv("PULSAR_LOG") != "" {
		logger.SetOutput(os.Stderr)
	}
	return pulsar.ClientOptions{
		URL:              url,
		OperationTimeout: soon,
		Logger:           log.NewLoggerWithLogrus(logger),
	}
}

const soon = 20 * time.Second

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const silence = 300 * time.Millisecond

// The environment of a scenario: a client, topics of its own, and the broker's HTTP API.
type world struct {
	client     pulsar.Client
	serviceURL string
	webURL     string
	prefix     string
	opened     []func()
}

func newWorld(serviceURL string, webURL string, prefix string) *world {
	return &world{serviceURL: serviceURL, webURL: webURL, prefix: prefix}
}

func (w *world) close() {
	for at := len(w.opened) - 1; at >= 0; at-- {
		w.opened[at]()
	}
}

func (w *world) topic(name string) string {
	return "persistent://public/default/" + w.prefix + name
}

func (w *world) partitioned(name string, partitions int) string {
	w.http("PUT", "/admin/v2/persistent/public/default/"+w.prefix+name+"/partitions",
		strconv.Itoa(partitions))
	return w.topic(name)
}

func (w *world) grow(name string, partitions int) {
	w.http("POST", "/admin/v2/persistent/public/default/"+w.prefix+name+"/partitions",
		strconv.Itoa(partitions))
}

// Sends a request that must succeed, following redirects to the right broker.
func (w *world) http(method string, path string, body string) {
	request, err := http.NewRequest(method, w.webURL+path, bytes.NewReader([]byte(body)))
	must(err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(err)
	check(answer.StatusCode/100 == 2, "%s %s: %s", method, path, text)
}

func (w *world) producer(options pulsar.ProducerOptions) pulsar.Producer {
	producer, err := w.client.CreateProducer(options)
	must(err)
	w.opened = append(w.opened, producer.Close)
	return producer
}

func (w *world) consumer(options pulsar.ConsumerOptions) pulsar.Consumer {
	consumer, err := w.client.Subscribe(earliest(options))
	must(err)
	w.opened = append(w.opened, consumer.Close)
	return consumer
}

// Subscribes as "sub" from the topic's first message on.
func earliest(options pulsar.ConsumerOptions) pulsar.ConsumerOptions {
	if options.SubscriptionName == "" {
		options.SubscriptionName = "sub"
		options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	}
	return options
}

func (w *world) reader(options pulsar.ReaderOptions) pulsar.Reader {
	reader, err := w.client.CreateReader(options)
	must(err)
	w.opened = append(w.opened, reader.Close)
	return reader
}

// Sends the messages "0", "1", ..., each in an entry of its own.
func (w *world) send(topic string, count int) []pulsar.MessageID {
	return sendAll(w.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true}), count)
}

// Sends the messages in one batch, and thus in one entry.
func (w *world) sendBatch(topic string, count int) []pulsar.MessageID {
	return sendAll(w.producer(pulsar.ProducerOptions{
		Topic:                   topic,
		BatchingMaxMessages:     uint(count),
		BatchingMaxPublishDelay: soon,
	}), count)
}

// Sends all messages at once and returns their ids in the order of sending.
func sendAll(producer pulsar.Producer, count int) []pulsar.MessageID {
	ids := make([]pulsar.MessageID, count)
	done := make(chan error, count)
	for number := range ids {
		message := &pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(number))}
		producer.SendAsync(context.Background(), message,
			func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				ids[number] = id
				done <- err
			})
	}
	must(producer.Flush())
	for range ids {
		must(<-done)
	}
	return ids
}

func send(producer pulsar.Producer, message *pulsar.ProducerMessage) pulsar.MessageID {
	id, err := producer.Send(context.Background(), message)
	must(err)
	return id
}

func text(payload string) *pulsar.ProducerMessage {
	return &pulsar.ProducerMessage{Payload: []byte(payload)}
}

func receive(consumer pulsar.Consumer) pulsar.Message {
	limit, stop := context.WithTimeout(context.Background(), soon)
	defer stop()
	message, err := consumer.Receive(limit)
	must(err)
	return message
}

func receiveAll(consumer pulsar.Consumer, count int) []pulsar.Message {
	var messages []pulsar.Message
	for len(messages) < count {
		messages = append(messages, receive(consumer))
	}
	return messages
}

// Receives messages until none has arrived for a moment.
func rest(consumer pulsar.Consumer) []pulsar.Message {
	var messages []pulsar.Message
	for {
		limit, stop := context.WithTimeout(context.Background(), silence)
		message, err := consumer.Receive(limit)
		stop()
		if err != nil {
			return messages
		}
		messages = append(messages, message)
	}
}

func read(reader pulsar.Reader) []string {
	var found []string
	for reader.HasNext() {
		limit, stop := context.WithTimeout(context.Background(), soon)
		message, err := reader.Next(limit)
		stop()
		must(err)
		found = append(found, string(message.Payload()))
	}
	return found
}

func texts(messages []pulsar.Message) []string {
	var found []string
	for _, message := range messages {
		found = append(found, string(message.Payload()))
	}
	return found
}

// Returns "from", ..., "to - 1".
func numbers(from int, to int) []string {
	var found []string
	for number := from; number < to; number++ {
		found = append(found, strconv.Itoa(number))
	}
	return found
}

// Returns the ledger, the entry, the index in the batch and the partition.
func place(id pulsar.MessageID) [4]int64 {
	return [4]int64{id.LedgerID(), id.EntryID(), int64(id.BatchIdx()), int64(id.PartitionIdx())}
}

func must(err error) {
	check(err == nil, "%v", err)
}

// Panics with the scenario's line numbers, which `answer` reports.
func check(holds bool, otherwise string, values ...any) {
	if holds {
		return
	}
	story := fmt.Sprintf(otherwise, values...)
	for depth := 1; depth < 6; depth++ {
		if _, file, line, found := runtime.Caller(depth); found {
			story += fmt.Sprintf(" at %s:%d", file[strings.LastIndex(file, "/")+1:], line)
		}
	}
	panic(story)
}

func same(expected any, found any) {
	check(reflect.DeepEqual(expected, found), "expected %v, found %v", expected, found)
}

func refused(words string, err error) {
	check(err != nil, "nothing was refused; expected %q", words)
	check(strings.Contains(err.Error(), words), "expected %q, found %v", words, err)
}

func until(what string, ask func() bool) {
	deadline := time.Now().Add(soon)
	for !ask() {
		check(time.Now().Before(deadline), "not within %s: %s", soon, what)
		time.Sleep(20 * time.Millisecond)
	}
}

package main

import (
	"context"

	"github.com/apache/pulsar-client-go/pulsar"
)

func transactionsAreRefused(w *world) {
	options := quiet(w.serviceURL)
	options.EnableTransaction = true
	_, err := pulsar.NewClient(options)
	refused("NotAllowedError", err) // The client reports no more than this.
}

func namesAreRefused(w *world) {
	_, err := w.client.CreateProducer(pulsar.ProducerOptions{
		Topic: "non-persistent://public/default/x",
	})
	refused("NotAllowedError", err)
}

func largeMessagesAreRefused(w *world) {
	producer := w.producer(pulsar.ProducerOptions{Topic: w.topic("large"), DisableBatching: true})
	_, err := producer.Send(context.Background(),
		&pulsar.ProducerMessage{Payload: make([]byte, 6*1024*1024)})
	refused("", err)
	send(producer, text("small"))
}

func strangersAreRefused(w *world) {
	_, err := w.client.CreateProducer(pulsar.ProducerOptions{Topic: w.topic("closed")})
	refused("AuthenticationError", err)
}

func friendsAreLetIn(w *world) {
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: w.topic("open")})
	w.send(w.topic("open"), 1)
	receive(consumer)
}

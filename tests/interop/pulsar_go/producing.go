package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

var codecs = map[string]pulsar.CompressionType{
	"lz4": pulsar.LZ4, "zlib": pulsar.ZLib, "zstd": pulsar.ZSTD, "snappy": pulsar.SNAPPY,
}

func defaultProducer(w *world) {
	topic := w.topic("default")
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	id := send(w.producer(pulsar.ProducerOptions{Topic: topic}), text("hello"))
	message := receive(consumer)
	same("hello", string(message.Payload()))
	same(place(id), place(message.ID()))
	must(consumer.Ack(message))
}

func batches(w *world) {
	topic := w.topic("batches")
	ids := w.sendBatch(topic, 100)
	same(ids[0].EntryID(), ids[99].EntryID())
	messages := receiveAll(w.consumer(pulsar.ConsumerOptions{Topic: topic}), 100)
	same(numbers(0, 100), texts(messages))
	for at := range ids {
		same(place(ids[at]), place(messages[at].ID()))
	}
}

func chunks(w *world) {
	topic := w.topic("chunks")
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	producer := w.producer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true, EnableChunking: true,
	})
	large := make([]byte, 12*1024*1024)
	for at := range large {
		large[at] = byte(at * 31)
	}
	send(producer, &pulsar.ProducerMessage{Payload: large})
	check(bytes.Equal(large, receive(consumer).Payload()), "other bytes came")
}

func compressed(codec pulsar.CompressionType) scenario {
	return func(w *world) {
		topic := w.topic("compressed")
		consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
		for _, batching := range []bool{true, false} {
			producer := w.producer(pulsar.ProducerOptions{
				Topic: topic, CompressionType: codec, DisableBatching: !batching,
			})
			sendAll(producer, 50)
			send(producer, &pulsar.ProducerMessage{Payload: make([]byte, 1024*1024)})
			same(numbers(0, 50), texts(receiveAll(consumer, 50)))
			same(1024*1024, len(receive(consumer).Payload()))
		}
	}
}

func exclusiveProducer(w *world) {
	alone := pulsar.ProducerOptions{
		Topic: w.topic("exclusive"), ProducerAccessMode: pulsar.ProducerAccessModeExclusive,
	}
	first, err := w.client.CreateProducer(alone)
	must(err)
	_, err = w.client.CreateProducer(alone)
	refused("ProducerFenced", err)
	_, err = w.client.CreateProducer(pulsar.ProducerOptions{Topic: alone.Topic})
	refused("ProducerBusy", err)
	send(first, text("alone"))
	first.Close()
	w.producer(alone)
}

func waitingProducer(w *world) {
	topic := w.topic("waiting")
	first, err := w.client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	must(err)
	second := make(chan pulsar.Producer)
	go func() {
		producer, _ := w.client.CreateProducer(pulsar.ProducerOptions{
			Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeWaitForExclusive,
		})
		second <- producer
	}()
	select {
	case <-second:
		check(false, "the second producer did not wait")
	case <-time.After(silence):
	}
	send(first, text("before"))
	first.Close()
	waited := <-second
	check(waited != nil, "the second producer was refused")
	send(waited, text("after"))
	waited.Close()
}

func partitions(w *world) {
	topic := w.partitioned("partitions", 3)
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	turn := 0
	producer := w.producer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true,
		MessageRouter: func(*pulsar.ProducerMessage, pulsar.TopicMetadata) int {
			turn++
			return turn % 3
		},
	})
	sent := map[[4]int64]bool{}
	for _, id := range sendAll(producer, 30) {
		sent[place(id)] = true
	}
	found := map[[4]int64]bool{}
	from := map[string]int{}
	for _, message := range receiveAll(consumer, 30) {
		found[place(message.ID())] = true
		from[strings.TrimPrefix(message.Topic(), topic)]++
		must(consumer.Ack(message))
	}
	same(sent, found)
	same(map[string]int{"-partition-0": 10, "-partition-1": 10, "-partition-2": 10}, from)
}

func addedPartitions(w *world) {
	topic := w.partitioned("grows", 1)
	consumer := w.consumer(pulsar.ConsumerOptions{
		Topic: topic, AutoDiscoveryPeriod: time.Second,
	})
	turn := 0
	producer := w.producer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true, PartitionsAutoDiscoveryInterval: time.Second,
		MessageRouter: func(_ *pulsar.ProducerMessage, topic pulsar.TopicMetadata) int {
			turn++
			return turn % int(topic.NumPartitions())
		},
	})
	send(producer, text("first"))
	same(topic+"-partition-0", receive(consumer).Topic())
	w.grow("grows", 3)
	from := map[string]bool{}
	until("messages from three partitions", func() bool {
		send(producer, text("x"))
		from[receive(consumer).Topic()] = true
		return len(from) == 3
	})
}

func deduplication(w *world) {
	namespace := "public/" + w.prefix + "dedup"
	w.http("PUT", "/admin/v2/namespaces/"+namespace, "")
	w.http("POST", "/admin/v2/namespaces/"+namespace+"/deduplication", "true")
	topic := "persistent://" + namespace + "/t"
	options := pulsar.ProducerOptions{Topic: topic, Name: "mine", DisableBatching: true}
	producer, err := w.client.CreateProducer(options)
	must(err)
	numbered := func(number int64) *pulsar.ProducerMessage {
		message := text(strconv.FormatInt(number, 10))
		message.SequenceID = &number
		return message
	}
	for _, number := range []int64{0, 1, 1, 0, 2} {
		send(producer, numbered(number))
	}
	producer.Close()
	producer = w.producer(options)
	send(producer, numbered(2))
	send(producer, numbered(3))
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	same(numbers(0, 4), texts(receiveAll(consumer, 4)))
	same(0, len(rest(consumer)))
}

func unloadedTopic(w *world) {
	topic := w.topic("unloaded")
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	producer := w.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
	found := map[string]bool{}
	for number := 0; number < 90; number++ {
		if number%30 == 15 {
			w.http("PUT", "/admin/v2/persistent/public/default/"+w.prefix+"unloaded/unload", "")
		}
		send(producer, text(strconv.Itoa(number)))
	}
	for len(found) < 90 {
		found[string(receive(consumer).Payload())] = true
	}
}

func metadata(w *world) {
	topic := w.topic("metadata")
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	for _, batching := range []bool{true, false} {
		producer := w.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: !batching})
		send(producer, &pulsar.ProducerMessage{
			Payload: []byte("x"), Key: "key", OrderingKey: "order",
			Properties: map[string]string{"colour": "green"}, EventTime: time.UnixMilli(12345),
		})
		message := receive(consumer)
		same("key", message.Key())
		same("order", message.OrderingKey())
		same("green", message.Properties()["colour"])
		same(int64(12345), message.EventTime().UnixMilli())
		same(producer.Name(), message.ProducerName())
	}
}

func delayed(w *world) {
	topic := w.topic("delayed")
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared})
	producer := w.producer(pulsar.ProducerOptions{Topic: topic})
	late := text("late")
	late.DeliverAfter = time.Second
	send(producer, late)
	send(producer, text("early"))
	same([]string{"early", "late"}, texts(receiveAll(consumer, 2)))
}

func encrypted(w *world) {
	folder, err := os.MkdirTemp("", "keys")
	must(err)
	defer os.RemoveAll(folder)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(err)
	write := func(name string, kind string, encoded []byte) string {
		path := filepath.Join(folder, name)
		block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: encoded})
		must(os.WriteFile(path, block, 0o600))
		return path
	}
	keys := crypto.NewFileKeyReader(
		write("public", "PUBLIC KEY", public),
		write("private", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)))
	topic := w.topic("encrypted")
	consumer := w.consumer(pulsar.ConsumerOptions{
		Topic: topic, Decryption: &pulsar.MessageDecryptionInfo{KeyReader: keys},
	})
	for _, batching := range []bool{true, false} {
		producer := w.producer(pulsar.ProducerOptions{
			Topic: topic, DisableBatching: !batching,
			Encryption: &pulsar.ProducerEncryptionInfo{KeyReader: keys, Keys: []string{"mine"}},
		})
		send(producer, text("secret"))
		same("secret", string(receive(consumer).Payload()))
	}
}

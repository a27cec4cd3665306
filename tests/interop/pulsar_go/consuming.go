package main

import (
	"context"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func exclusiveSubscription(w *world) {
	options := earliest(pulsar.ConsumerOptions{Topic: w.topic("exclusive")})
	first, err := w.client.Subscribe(options)
	must(err)
	_, err = w.client.Subscribe(options)
	refused("ConsumerBusy", err)
	first.Close()
	w.consumer(options)
}

type active struct{ became chan string }

func (a active) BecameActive(consumer pulsar.Consumer, _ string, _ int32) {
	a.became <- consumer.Name()
}
func (a active) BecameInactive(pulsar.Consumer, string, int32) {}

func failoverSubscription(w *world) {
	topic := w.topic("failover")
	listener := active{make(chan string, 10)}
	var consumers []pulsar.Consumer
	for _, name := range []string{"a", "b"} {
		consumer, err := w.client.Subscribe(earliest(pulsar.ConsumerOptions{
			Topic: topic, Name: name, Type: pulsar.Failover, EventListener: listener,
		}))
		must(err)
		consumers = append(consumers, consumer)
	}
	defer consumers[1].Close()
	same("a", <-listener.became)
	w.send(topic, 10)
	same(numbers(0, 10), texts(receiveAll(consumers[0], 10)))
	consumers[0].Close()
	same("b", <-listener.became)
	same(numbers(0, 10), texts(receiveAll(consumers[1], 10)))
}

func sharedSubscription(w *world) {
	topic := w.topic("shared")
	options := pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, ReceiverQueueSize: 5}
	first, second := w.consumer(options), w.consumer(options)
	w.send(topic, 20)
	found := map[string]bool{}
	for _, each := range append(receiveAll(first, 5), receiveAll(second, 5)...) {
		found[string(each.Payload())] = true
	}
	same(10, len(found))
}

func keySharedSubscription(batcher pulsar.BatcherBuilderType, batching bool) scenario {
	return func(w *world) {
		topic := w.topic("keyshared")
		var consumers []pulsar.Consumer
		for range 3 {
			consumers = append(consumers,
				w.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared}))
		}
		producer := w.producer(pulsar.ProducerOptions{
			Topic: topic, DisableBatching: !batching, BatcherBuilderType: batcher,
		})
		for number := range 200 {
			message := text(strconv.Itoa(number))
			message.Key = "key-" + strconv.Itoa(number%10)
			producer.SendAsync(context.Background(), message,
				func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
		}
		must(producer.Flush())
		owners := map[string]int{}
		last := map[string]int{}
		count := 0
		for at, consumer := range consumers {
			for _, message := range rest(consumer) {
				owner, known := owners[message.Key()]
				check(!known || owner == at, "a key has two consumers")
				owners[message.Key()] = at
				number, err := strconv.Atoi(string(message.Payload()))
				must(err)
				before, known := last[message.Key()]
				check(!known || before < number, "out of order")
				last[message.Key()] = number
				count++
			}
		}
		same(200, count)
	}
}

func stickyRanges(w *world) {
	topic := w.topic("sticky")
	sticky := func(from int, to int) (pulsar.Consumer, error) {
		policy, err := pulsar.NewKeySharedPolicySticky([]int{from, to})
		must(err)
		return w.client.Subscribe(earliest(pulsar.ConsumerOptions{
			Topic: topic, Type: pulsar.KeyShared, KeySharedPolicy: policy,
		}))
	}
	low, err := sticky(0, 32767)
	must(err)
	defer low.Close()
	_, err = sticky(30000, 40000)
	refused("ConsumerAssignError", err)
	high, err := sticky(32768, 65535)
	must(err)
	defer high.Close()
	producer := w.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
	for number := range 50 {
		send(producer, &pulsar.ProducerMessage{Payload: []byte("x"), Key: strconv.Itoa(number)})
	}
	same(50, len(rest(low))+len(rest(high)))
}

func severalTopics(w *world) {
	topics := []string{w.topic("one"), w.topic("two")}
	consumer := w.consumer(pulsar.ConsumerOptions{Topics: topics})
	for _, topic := range topics {
		w.send(topic, 5)
	}
	from := map[string]int{}
	for _, message := range receiveAll(consumer, 10) {
		from[message.Topic()]++
		must(consumer.Ack(message))
	}
	same(map[string]int{topics[0]: 5, topics[1]: 5}, from)
}

func pattern(w *world) {
	w.send(w.topic("pattern-a"), 1)
	w.partitioned("pattern-b", 2)
	w.send(w.topic("pattern-b"), 2)
	consumer := w.consumer(pulsar.ConsumerOptions{
		TopicsPattern: w.topic("pattern-.*"), AutoDiscoveryPeriod: time.Second,
	})
	receiveAll(consumer, 3)
	w.send(w.topic("pattern-c"), 1)
	same(w.topic("pattern-c"), receive(consumer).Topic())
}

func unsubscribe(w *world) {
	topic := w.topic("unsubscribe")
	consumer, err := w.client.Subscribe(earliest(pulsar.ConsumerOptions{Topic: topic}))
	must(err)
	w.send(topic, 3)
	for _, message := range receiveAll(consumer, 3) {
		must(consumer.Ack(message))
	}
	must(consumer.Unsubscribe())
	consumer.Close()
	again := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	same(numbers(0, 3), texts(receiveAll(again, 3)))
}

func acknowledgedSingly(w *world) {
	options := earliest(pulsar.ConsumerOptions{Topic: w.topic("singly"), AckWithResponse: true})
	w.send(options.Topic, 5)
	consumer, err := w.client.Subscribe(options)
	must(err)
	messages := receiveAll(consumer, 5)
	must(consumer.Ack(messages[1]))
	must(consumer.AckIDList([]pulsar.MessageID{messages[3].ID()}))
	consumer.Close()
	same([]string{"0", "2", "4"}, texts(receiveAll(w.consumer(options), 3)))
}

func acknowledgedCumulatively(w *world) {
	options := earliest(pulsar.ConsumerOptions{Topic: w.topic("upto"), AckWithResponse: true})
	w.send(options.Topic, 5)
	w.sendBatch(options.Topic, 5)
	consumer, err := w.client.Subscribe(options)
	must(err)
	messages := receiveAll(consumer, 10)
	must(consumer.AckCumulative(messages[3]))
	consumer.Close()
	same([]string{"4", "0", "1", "2", "3", "4"}, texts(receiveAll(w.consumer(options), 6)))
}

func acknowledgedInBatches(w *world) {
	options := earliest(pulsar.ConsumerOptions{
		Topic: w.topic("indexes"), Type: pulsar.Shared, AckWithResponse: true,
		EnableBatchIndexAcknowledgment: true,
	})
	w.sendBatch(options.Topic, 10)
	consumer, err := w.client.Subscribe(options)
	must(err)
	messages := receiveAll(consumer, 10)
	for _, at := range []int{0, 2, 3, 9} {
		must(consumer.Ack(messages[at]))
	}
	consumer.Close()
	again := w.consumer(options)
	same([]string{"1", "4", "5", "6", "7", "8"}, texts(receiveAll(again, 6)))
	same(0, len(rest(again)))
}

func negativeAcknowledgement(w *world) {
	topic := w.topic("negative")
	w.send(topic, 3)
	consumer := w.consumer(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond,
	})
	messages := receiveAll(consumer, 3)
	must(consumer.Ack(messages[0]))
	consumer.Nack(messages[1])
	must(consumer.Ack(messages[2]))
	again := receive(consumer)
	same("1", string(again.Payload()))
	same(uint32(1), again.RedeliveryCount())
}

func deadLetters(w *world) {
	topic := w.topic("letters")
	dead := w.consumer(pulsar.ConsumerOptions{Topic: topic + "-dead"})
	w.send(topic, 3)
	consumer := w.consumer(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 50 * time.Millisecond,
		DLQ: &pulsar.DLQPolicy{
			MaxDeliveries: 2, DeadLetterTopic: topic + "-dead", InitialSubscriptionName: "kept",
		},
	})
	found := make(chan string, 1)
	go func() { found <- string(receive(dead).Payload()) }()
	for {
		select {
		case text := <-found:
			same("1", text)
			kept := w.consumer(pulsar.ConsumerOptions{
				Topic: topic + "-dead", SubscriptionName: "kept",
			})
			same("1", string(receive(kept).Payload()))
			return
		case message := <-consumer.Chan():
			if string(message.Payload()) == "1" {
				consumer.Nack(message.Message)
			} else {
				must(consumer.Ack(message.Message))
			}
		}
	}
}

func retryLetters(w *world) {
	topic := w.topic("retry")
	w.send(topic, 1)
	consumer := w.consumer(pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, RetryEnable: true,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 2},
	})
	dead := w.consumer(pulsar.ConsumerOptions{Topic: topic + "-sub-DLQ"})
	for count := range 3 {
		message := receive(consumer)
		same("0", string(message.Payload()))
		same(count == 0, message.Topic() == topic)
		consumer.ReconsumeLater(message, 100*time.Millisecond)
	}
	same("0", string(receive(dead).Payload()))
}

func seekToMessage(w *world) {
	topic := w.topic("seek")
	ids := w.send(topic, 10)
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic, StartMessageIDInclusive: true})
	receiveAll(consumer, 10)
	must(consumer.Seek(ids[4]))
	same(numbers(4, 10), texts(receiveAll(consumer, 6)))
	must(consumer.Seek(ids[0]))
	same(numbers(0, 10), texts(receiveAll(consumer, 10)))
}

func seekToTime(w *world) {
	topic := w.topic("seektime")
	w.send(topic, 5)
	time.Sleep(20 * time.Millisecond)
	between := time.Now()
	time.Sleep(20 * time.Millisecond)
	w.send(topic, 3)
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic})
	receiveAll(consumer, 8)
	must(consumer.SeekByTime(between))
	same(numbers(0, 3), texts(receiveAll(consumer, 3)))
}

func readers(w *world) {
	topic := w.topic("reader")
	ids := w.send(topic, 10)
	from := func(id pulsar.MessageID, inclusive bool) pulsar.Reader {
		return w.reader(pulsar.ReaderOptions{
			Topic: topic, StartMessageID: id, StartMessageIDInclusive: inclusive,
		})
	}
	same(numbers(0, 10), read(from(pulsar.EarliestMessageID(), false)))
	same(numbers(5, 10), read(from(ids[4], false)))
	same([]string{"9"}, read(from(pulsar.LatestMessageID(), true)))
	reader := from(ids[4], true)
	same(numbers(4, 10), read(reader))
	must(reader.Seek(ids[7]))
	same(numbers(7, 10), read(reader))
	late := from(pulsar.LatestMessageID(), false)
	check(!late.HasNext(), "there is nothing behind the latest")
	last := w.send(topic, 2)[1]
	message, err := late.Next(context.Background())
	must(err)
	same("0", string(message.Payload()))
	same([]string{"1"}, read(late))
	found, err := late.GetLastMessageID()
	must(err)
	same(place(last), place(found))
}

func readerWithinBatch(w *world) {
	topic := w.topic("readbatch")
	ids := w.sendBatch(topic, 10)
	same(numbers(4, 10),
		read(w.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: ids[3]})))
}

func tableView(w *world) {
	topic := w.partitioned("table", 2)
	schema := pulsar.NewStringSchema(nil)
	producer := w.producer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
	for number := range 20 {
		value := strconv.Itoa(number)
		send(producer, &pulsar.ProducerMessage{Key: "key-" + strconv.Itoa(number%5), Value: value})
	}
	var kind *string
	view, err := w.client.CreateTableView(pulsar.TableViewOptions{
		Topic: topic, Schema: schema, SchemaValueType: typeOf(kind),
	})
	must(err)
	defer view.Close()
	same(5, view.Size())
	same("19", *view.Get("key-4").(*string))
	send(producer, &pulsar.ProducerMessage{Key: "key-0", Value: "new"})
	until("the view follows", func() bool { return *view.Get("key-0").(*string) == "new" })
}

package main

import (
	"reflect"

	"github.com/apache/pulsar-client-go/pulsar"
)

type person struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
}

type personWithTown struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
	Town string `json:"town" avro:"town"`
}

const (
	smaller = `{"type": "record", "name": "Person", "fields": [
		{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}`
	larger = `{"type": "record", "name": "Person", "fields": [
		{"name": "name", "type": "string"}, {"name": "age", "type": "int"},
		{"name": "town", "type": "string", "default": ""}]}`
)

func typeOf(value any) reflect.Type { return reflect.TypeOf(value) }

func through[T comparable](w *world, name string, schema pulsar.Schema, value T) {
	topic := w.topic("schema-" + name)
	consumer := w.consumer(pulsar.ConsumerOptions{Topic: topic, Schema: schema})
	producer := w.producer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
	send(producer, &pulsar.ProducerMessage{Value: value})
	var found T
	must(receive(consumer).GetSchemaValue(&found))
	same(value, found)
}

func primitiveSchemas(w *world) {
	through(w, "int8", pulsar.NewInt8Schema(nil), int8(7))
	through(w, "int16", pulsar.NewInt16Schema(nil), int16(7))
	through(w, "int32", pulsar.NewInt32Schema(nil), int32(7))
	through(w, "int64", pulsar.NewInt64Schema(nil), int64(7))
	through(w, "float", pulsar.NewFloatSchema(nil), float32(1.5))
	through(w, "double", pulsar.NewDoubleSchema(nil), 1.5)
}

func recordSchemas(w *world) {
	ada := person{"Ada", 36}
	through(w, "json", pulsar.NewJSONSchema(smaller, nil), ada)
	through(w, "avro", pulsar.NewAvroSchema(smaller, nil), ada)
}

func schemaOfOneMessage(w *world) {
	topic := w.topic("onemessage")
	producer := w.producer(pulsar.ProducerOptions{
		Topic: topic, Schema: pulsar.NewAvroSchema(smaller, nil),
	})
	consumer := w.consumer(pulsar.ConsumerOptions{
		Topic: topic, Schema: pulsar.NewAvroSchema(larger, nil),
	})
	send(producer, &pulsar.ProducerMessage{Value: person{"Ada", 36}})
	send(producer, &pulsar.ProducerMessage{
		Value: personWithTown{"Grace", 37, "New York"}, Schema: pulsar.NewAvroSchema(larger, nil),
	})
	first, second := receive(consumer), receive(consumer)
	check(!reflect.DeepEqual(first.SchemaVersion(), second.SchemaVersion()), "one version")
	var grown personWithTown
	must(second.GetSchemaValue(&grown))
	same("New York", grown.Town)
}

func schemaThatDoesNotFit(w *world) {
	topic := w.topic("misfit")
	w.producer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(smaller, nil)})
	_, err := w.client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, Schema: pulsar.NewStringSchema(nil),
	})
	refused("IncompatibleSchema", err)
	_, err = w.client.Subscribe(earliest(pulsar.ConsumerOptions{
		Topic: topic, Schema: pulsar.NewStringSchema(nil),
	}))
	refused("IncompatibleSchema", err)
	w.producer(pulsar.ProducerOptions{Topic: topic})
}

---------------------------- MODULE LedgerTrace ----------------------------
(***************************************************************************)
(* Is a recorded run a behaviour of BookKeeperProtocol?                    *)
(*                                                                         *)
(* TraceData contains the run as a sequence of visible states of a ledger: *)
(* metadata, stored entries, fences, and the events of each client.        *)
(* `i` is the index of the current state.  A step of the specification     *)
(* either leaves the visible state unchanged or leads to the next one;     *)
(* messages are not visible.  The run is a behaviour if and only if the    *)
(* last state can be reached, that is, if `NotExplained` is violated.      *)
(***************************************************************************)
EXTENDS BookKeeperProtocol, TraceData

VARIABLE i

ASSUME TLCSet(1, 0)

(* The visible state *)

Stages == ( Nil :> "none" @@ STATUS_OPEN :> "open" @@ STATUS_IN_RECOVERY :> "in recovery"
            @@ STATUS_CLOSED :> "closed" )

Segments(fragments) ==
    [n \in DOMAIN fragments |->
        [first |-> fragments[n].first_entry_id, bookies |-> fragments[n].ensemble]]

\* Hide LastAddPushed during fencing, because it changes with each response.
SeenOf(c) ==
    LET fences == c.recovery_phase = FencingPhase IN
    [begun     |-> c.status # Nil,
     withdrawn |-> c.status = CLIENT_WITHDRAWN,
     reads     |-> c.recovery_phase = ReadWritePhase,
     pushed    |-> IF fences THEN 0 ELSE c.lap,
     segments  |-> IF c.recovery_phase = NotStarted THEN << >> ELSE Segments(c.fragments)]

Seen ==
    [stage    |-> Stages[meta_status],
     last     |-> meta_last_entry,
     segments |-> Segments(meta_fragments),
     stored   |-> [b \in Bookies |-> { entry.id : entry \in b_entries[b] }],
     fenced   |-> { b \in Bookies : b_fenced[b] },
     clients  |-> [c \in Clients |-> SeenOf(clients[c])]]

Confirmed == [c \in Clients |-> IF clients[c].recovery_phase = FencingPhase
                                THEN 0 ELSE clients[c].lac]

(* Messages: the specification allows any message to be lost or late.  Here, they arrive as in    *)
(* the run; Trace[n].arrived counts the responses that had arrived when state n ended.            *)

Responses == {AddEntryResponseMessage, FenceResponseMessage, ReadResponseMessage}

\* A response in the run's notation.
AnswerOf(msg) ==
    CASE msg.type = AddEntryResponseMessage ->
            << IF msg.success THEN "add" ELSE "refused", msg.cid, msg.bookie, msg.entry.id >>
      [] msg.type = FenceResponseMessage -> << "fence", msg.cid, msg.bookie, 0 >>
      [] msg.type = ReadResponseMessage ->
            << IF msg.code = OK THEN "read" ELSE "no entry", msg.cid, msg.bookie, msg.entry.id >>

AnswersTo(msg) ==
    CASE msg.type \in {AddEntryRequestMessage, AddEntryResponseMessage} ->
            { << kind, msg.cid, msg.bookie, msg.entry.id >> : kind \in {"add", "refused"} }
      [] msg.type \in {FenceRequestMessage, FenceResponseMessage} ->
            { << "fence", msg.cid, msg.bookie, 0 >> }
      [] msg.type = ReadRequestMessage ->
            { << kind, msg.cid, msg.bookie, msg.entry_id >> : kind \in {"read", "no entry"} }
      [] msg.type = ReadResponseMessage ->
            { << kind, msg.cid, msg.bookie, msg.entry.id >> : kind \in {"read", "no entry"} }

Places == [answer \in { Arrivals[n] : n \in DOMAIN Arrivals } |->
              CHOOSE n \in DOMAIN Arrivals : Arrivals[n] = answer]

\* The index in Arrivals of the response to a request, or 0 if there was no response.
PlaceOf(msg) ==
    LET known == AnswersTo(msg) \intersect DOMAIN Places
    IN IF known = {} THEN 0 ELSE Places[CHOOSE answer \in known : TRUE]

IsSentAsInTheRun(msg, count) ==
    IF msg.type \in Responses
    THEN IF PlaceOf(msg) > 0 THEN count = 1 /\ AnswerOf(msg) \in DOMAIN Places ELSE count = -1
    ELSE \/ count = 1
         \/ PlaceOf(msg) = 0

MustBeTaken(msg, c) ==
    CASE msg.type = AddEntryResponseMessage ->
            /\ c.status \in {STATUS_OPEN, STATUS_IN_RECOVERY}
            /\ msg.bookie \in c.curr_fragment.ensemble
      [] msg.type = FenceResponseMessage -> c.recovery_phase = FencingPhase
      [] msg.type = ReadResponseMessage ->
            /\ c.recovery_phase = ReadWritePhase
            /\ c.curr_read_entry = msg.entry.id

\* A client processes responses in order of arrival, and skips only those that it cannot use.
IsTakenAsInTheRun(msg) ==
    /\ PlaceOf(msg) <= Trace[i'].arrived
    /\ \A other \in DOMAIN messages \ {msg} :
          other.cid = msg.cid /\ PlaceOf(other) > 0 =>
              CASE other.type \notin Responses -> messages[other] = 0 \/ PlaceOf(other) > PlaceOf(msg)
                [] PlaceOf(other) > PlaceOf(msg) -> messages[other] = 1
                [] OTHER -> messages[other] = 0 \/ ~MustBeTaken(other, clients[msg.cid])

\* A response that has arrived was sent earlier, and its client has processed it.
NothingIsLate ==
    \A msg \in DOMAIN messages' :
        messages'[msg] = 1 /\ PlaceOf(msg) > 0 /\ PlaceOf(msg) <= Trace[i].arrived
            => msg.type \in Responses /\ ~MustBeTaken(msg, clients'[msg.cid])

(* Allow only one order of the bookies' hidden steps, because every order leads to the same        *)
(* state.  A bookie never loses an entry, so a read that finds the entry can wait until its        *)
(* response is due, and a read that does not find it can happen first.                             *)

IsPending(msg) == messages[msg] = 1 /\ msg.type \notin Responses /\ PlaceOf(msg) > 0

KindOf(msg) == Arrivals[PlaceOf(msg)][1]

CanWait(msg) == IsPending(msg) /\ KindOf(msg) # "no entry"

ComesFirst(msg) == IsPending(msg) /\ KindOf(msg) = "no entry" /\ b_fenced[msg.bookie]

IsNext(msg, others) == \A other \in others : PlaceOf(other) >= PlaceOf(msg)

HiddenRequestsTakeTurns ==
    LET first   == { msg \in DOMAIN messages : ComesFirst(msg) }
        waiting == { msg \in DOMAIN messages : CanWait(msg) }
    IN /\ first # {} => \E msg \in first : messages'[msg] = 0 /\ IsNext(msg, first)
       /\ \A msg \in waiting : messages'[msg] = 0 =>
             PlaceOf(msg) <= Trace[i + 1].arrived /\ IsNext(msg, waiting)

\* The time at which a recoverer sends a request does not matter either, so it sends it first.
HasToSend(c) ==
    /\ c.status = STATUS_IN_RECOVERY
    /\ c.recovery_phase = ReadWritePhase
    /\ \/ c.last_recoverable_entry = Nil /\ c.curr_read_entry = Nil
       \/ \E op \in c.pending_add_ops : NotSentWrite(c, op)

SendingComesFirst ==
    (\E c \in Clients : HasToSend(clients[c])) =>
        \E msg \in DOMAIN messages' \ DOMAIN messages : msg.type \notin Responses

MessagesAreAsInTheRun ==
    /\ \A msg \in DOMAIN messages' \ DOMAIN messages : IsSentAsInTheRun(msg, messages'[msg])
    /\ \A msg \in DOMAIN messages :
          msg.type \in Responses /\ messages[msg] = 1 /\ messages'[msg] = 0
              => IsTakenAsInTheRun(msg)
    /\ IF i' = i THEN SendingComesFirst /\ HiddenRequestsTakeTurns ELSE NothingIsLate

(* Choice of ensembles: CHOOSE allows any choice, but here it must be the one in the run *)

EnsemblesAt(n) ==
    LET seen == Trace[n].seen
        all  == {seen.segments} \union { seen.clients[c].segments : c \in Clients }
    IN UNION { { segments[k].bookies : k \in DOMAIN segments } : segments \in all }

EnsembleOfTheRun(include, exclude) ==
    LET new == EnsemblesAt(i + 1) \ EnsemblesAt(i)
        fit == { e \in new : ValidEnsemble(e, include, exclude) }
    IN IF fit # {} THEN CHOOSE e \in fit : TRUE
       ELSE CHOOSE e \in SUBSET Bookies : ValidEnsemble(e, include, exclude)

(* Amendments for differences between BookKeeper and the specification; see amendments.py *)

\* "answers not needed": other responses are kept but ignored.
LeavesOtherAnswers(msg, ensemble) == TRUE

\* "confirmed before recovery": entries up to the LAC that fencing returned are acknowledged.
AddsToWhatWasConfirmed(c, entry_id, bookie) ==
    [id \in DOMAIN c.confirmed |->
        IF id <= c.lac THEN c.curr_fragment.ensemble
        ELSE IF id = entry_id THEN c.confirmed[id] \union {bookie}
        ELSE c.confirmed[id]]

\* "two recoverers": a recoverer continues with the version that another recoverer has written.
ReadsMetadataAgain(c) ==
    /\ "two recoverers" \in Amendments
    /\ meta_status = STATUS_IN_RECOVERY
    /\ Trace[i + 1].seen.stage = "closed"
    /\ clients[c].status = STATUS_IN_RECOVERY
    /\ clients[c].meta_version # meta_version
    /\ clients' = [clients EXCEPT ![c].meta_version = meta_version]
    /\ UNCHANGED << bookie_vars, meta_vars, messages >>

(* The run *)

TraceInit == Init /\ i = 1

TraceNext ==
    /\ i < Len(Trace)
    /\ Next \/ \E c \in Clients : ReadsMetadataAgain(c)
    /\ \/ i' = i /\ Seen' = Trace[i].seen
       \/ i' = i + 1 /\ Seen' = Trace[i + 1].seen /\ Confirmed' = Trace[i + 1].confirmed
    /\ \A c \in Clients : Confirmed'[c] <= Trace[i + 1].confirmed[c]
    /\ MessagesAreAsInTheRun

TraceSpec == TraceInit /\ [][TraceNext]_<< vars, i >>

\* Prints how far the run can be explained.
Progress == IF i > TLCGet(1) THEN TLCSet(1, i) /\ PrintT(<< "explained", i >>) ELSE TRUE

NotExplained == i < Len(Trace)
=============================================================================

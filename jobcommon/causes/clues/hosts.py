"""Clues to other machines and to the peers of the job."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import (
    HUB,
    LOCAL_HUB,
    LOCAL_LOST_PEERS,
    LOCAL_SERVER,
    LOCAL_UNREACHED,
    LOST_PEERS,
    REMOTE,
    SERVER,
    SLOW,
    UNREACHED,
)

_HOST = r"'?([\w-]+(?:\.[\w-]+)*\.[a-z]{2,}|[\w.-]+:\d+)"
_ACCESS = (
    "check the credentials that the program has from a Secret or by its ServiceAccount (token, key, password, role), and what "
    "they allow"
)

HOSTS = (
    Clue(
        r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|http: server gave HTTP response to HTTPS client", Reason.TLS_FAILED, "",
        "the server, or the proxy, does not speak TLS on this port: use http:// in its address (or in https_proxy), or its "
        "TLS port",
    ),
    Clue(
        r"UNEXPECTED_EOF_WHILE_READING|EOF occurred in violation of protocol|SSLEOFError|SSLZeroReturnError|"
        r"handshake (?:failure|failed|timed out)|TLS handshake timeout", Reason.TLS_FAILED, "",
        "the server, or a proxy before it, ended the TLS connection: see whether it is overloaded or refuses this client, and "
        "retry",
    ),
    Clue(
        r"CERTIFICATE_VERIFY_FAILED|certificate verif(?:y|ication) failed|SSLCertVerification|certificate (?:is not yet valid|"
        r"has expired)|self.signed certificate|"
        r"\bSSLError\b.*certificate|unable to get local issuer|invalid peer certificate|UnknownIssuer|"
        r"hostname mismatch|x509:|SSL certificate problem",
        Reason.TLS_FAILED, "",
        "compare the clock with the certificate's dates, and give the program the CA that signed it (SSL_CERT_FILE, "
        "REQUESTS_CA_BUNDLE)",
    ),
    Clue(
        r"Tunnel connection failed|407 Proxy|Proxy Authentication Required", Reason.HOST_UNREACHABLE, "",
        "the proxy in HTTPS_PROXY refuses the connection: put the user and password into its URL, or exclude the host "
        "(NO_PROXY)",
    ),
    Clue(
        r"was not reachable via ssh", Reason.PEERS_UNREACHABLE, "",
        "the launcher does not reach sshd there: check whether that replica is running, whether its name resolves, and the "
        "SSH keys",
        symptom=True,
    ),
    Clue(
        r"RequestTimeTooSkewed|Clock skew too great|request time and the current time is too large|"
        r"Signature (?:not yet current|expired)",
        Reason.ACCESS_DENIED, "",
        "the node's clock is wrong, not the credentials: synchronize it (NTP; chronyc tracking shows the offset), or use "
        "another node",
        local="this machine's clock is wrong, not the credentials: synchronize it (NTP; chronyc tracking shows the offset)",
    ),
    Clue(
        r"already exists in database: \S+\.proto|duplicate symbol '\S+\.proto|TypeError: Couldn't build proto file|"
        r"Descriptors cannot (?:not )?be created directly", Reason.VERSIONS_CONFLICT, "",
        "two libraries contain the same protobuf messages, or protobuf is too new for a library: install a single build of "
        "each, or a compatible protobuf (pip check); PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python avoids it",
    ),
    Clue(
        r"\bkinit\b|GSSAPI|GSSException|\bKerberos\b|\bKRB5|\bTGT\b", Reason.ACCESS_DENIED, "",
        "Kerberos rejects the program: check that its keytab is mounted and valid, that kinit runs first and again in long "
        "runs, and that the node's clock is right",
    ),
    Clue(
        r"\blicen[sc]es?\b.{,60}\b(?:not found|expired|denied|fail\w*|invalid|not (?:valid|available)|checkout|exceeded|"
        r"unavailable|in use)|"
        r"\b(?:no|invalid|expired|missing|checkout|find|obtain|get|acquire)\b.{,30}\blicen[sc]e\b", Reason.ACCESS_DENIED, "",
        "the program gets no licence: mount its file or name its server in env, and check whether it has a free seat",
    ),
    Clue(
        # Of mpirun's launcher, which may exec into the pods of its workers only.
        r"pods \"[\w.-]+\" (?:not found|is forbidden: User \"\S+-launcher\" cannot get resource)", Reason.PEERS_UNREACHABLE, "",
        LOST_PEERS, symptom=True, local=LOCAL_LOST_PEERS,
    ),
    Clue(
        r"is forbidden: User \\?\"system:serviceaccount:", Reason.ACCESS_DENIED, "",
        "grant the pod's ServiceAccount this right with a Role and a RoleBinding, and name the account in serviceAccountName",
    ),
    Clue(
        # wait-for-it
        r"timeout occurred after waiting \d+ seconds for \S+:\d+", Reason.HOST_UNREACHABLE, "", SERVER, local=LOCAL_SERVER,
    ),
    Clue(
        r"lookup (\S+?)(?: on \S+)?: (?:no such host|server misbehaving|i/o timeout)", Reason.HOST_UNREACHABLE, "",
        "the name {0} does not resolve here: correct it, or see that its Service exists and that the pod's DNS works",
    ),
    Clue(
        r"GatedRepoError|gated repo|Access to model \S+ is restricted", Reason.ACCESS_DENIED, "",
        "give the program a token (HF_TOKEN from a Secret), and accept the terms of this model or data set on its page with "
        "the token's account",
        local="give the program a token (HF_TOKEN), and accept the terms of this model or data set on its page with its "
        "account",
    ),
    Clue(
        r"40[13] Client Error|(?:ServiceException|AccessDeniedException|HTTPError):? 40[13]|\b403 (?:Access Denied|GET|POST)\b|"
        r"Access denied for user|password authentication failed|Authorization failed|\bCode: 40[13]\b|"
        r"returned error: (?:HTTP/[\d.]+ )?40[13]|\bERROR 40[13]\b|error occurred \(40[13]\)|"
        r"40[13]: (?:Unauthorized|Forbidden)|Access to .{,80} is restricted|NoCredentialsError|Unable to locate credentials|"
        r"InvalidAccessKeyId|AccessDenied|Authorization(?:PermissionMismatch|Failure)|AuthenticationFailed|"
        r"\bAuthenticationError\b|SignatureDoesNotMatch|Expired ?Token|DefaultCredentialsError|"
        r"api_key not configured|No API key|InvalidToken|"
        r"Invalid (?:username or password|API key|user token)|authentication (?:failed|required)|Unauthorized|"
        r"wandb\.errors\.\w*(?:Usage|Auth)\w*Error|"
        r"hvac\.exceptions\.(?:Forbidden|Unauthorized)|PermissionError: (?:Forbidden|Access Denied)\b|\bACCESS_DENIED\b|"
        r"\bdoes not have \S+ access\b|\bNOT_AUTHORIZED\b|googleapi: Error 40[13]\b|Incorrect username or password|"
        r"Required '[\w.]+' permission|Forbidden access|could not read Username",
        Reason.ACCESS_DENIED, "", _ACCESS,
    ),
    Clue(
        r"CommError.*(?:permission|40[134])", Reason.ACCESS_DENIED, "",
        "check WANDB_API_KEY, and whether its account may write to this entity and project, whose names may be wrong",
    ),
    Clue(
        r"404 Client Error|\b404 (?:GET|POST|PUT)\b|ResourceNotFound|RESOURCE_DOES_NOT_EXIST|"
        r"specified (?:bucket|container|key|blob|object) does not exist|"
        r"returned error: 404|\bERROR 404\b|RepositoryNotFound|(?<!Local)EntryNotFoundError|RevisionNotFound|NoSuchBucket|"
        r"NoSuchKey|HTTP Error 404|is not a local folder and is not a valid model identifier|DatasetNotFoundError|"
        r"fatal: (?:repository )?'.+' (?:does not appear to be a git repository|does not exist|not found)",
        Reason.FILE_NOT_FOUND, "",
        REMOTE,
    ),
    Clue(
        r"(?:host=|//|at ')'?(?:127\.0\.0\.1|localhost|0\.0\.0\.0)\b[\s\S]*(?:refused|Max retries|Failed to (?:connect|"
        r"establish))",
        Reason.HOST_UNREACHABLE, "",
        "the address is that of the pod itself: name the server's own address (of MLflow, MLFLOW_TRACKING_URI), or see why the "
        "server in this pod does not listen",
        local="the address is that of this machine: name the server's own address (of MLflow, MLFLOW_TRACKING_URI), or see "
        "why the server does not listen",
    ),
    Clue(
        rf"(?:Failed to resolve|couldn't connect to|Could not resolve(?: host)?:?|could not connect to server:?|"
        rf"Temporary failure resolving|unable to resolve host address|Failed to fetch:?|CONNECTION FAILED for url|"
        rf"connection to server at|unable to access|"
        rf"host=|connect to endpoint(?: URL)?:?|HTTPSConnectionPool\(host=|connecting to) ?[\"'‘`<]?(?:https?://)?{_HOST}",
        Reason.HOST_UNREACHABLE, "", HUB,
        local=LOCAL_HUB,
    ),
    Clue(
        r"(?:HTTP Error|returned error:|status(?: code)?:?|response) 5\d\d\b|\b5\d\d Server Error|\bERROR 5\d\d\b|"
        r"\((?:InternalError|ServiceUnavailable)\)|\b50[0234]:? (?:Bad Gateway|Service Unavailable|Gateway Time-?out|"
        r"Internal Server)|Backend Error|StatusCode\.(?:INTERNAL|UNIMPLEMENTED)",
        Reason.HOST_UNREACHABLE, "", "the server reports an internal error: check its state and its log, and retry later",
    ),
    Clue(
        r"RemoteDisconnected|Remote end closed connection|Connection aborted", Reason.HOST_UNREACHABLE, "",
        "the server closed the connection without an answer: check whether it ended or restarted, and its log",
    ),
    Clue(
        r"\bRead timed out|\bReadTimeout(?:Error)?\b", Reason.HOST_UNREACHABLE, "", SLOW,
    ),
    Clue(
        r"OfflineModeIsEnabled|[Oo]ffline mode is enabled|outgoing traffic has been disabled", Reason.FILE_NOT_FOUND, "",
        "the offline mode is on and the cache lacks the files: load them into the cache (HF_HOME) on a volume beforehand, or "
        "unset HF_HUB_OFFLINE",
    ),
    Clue(
        # Of clients of a database, a queue, a store or a service, which is none of the job's replicas.
        r"\b(?:redis|pymongo|psycopg2?|MySQLdb|pymysql|mysql|asyncpg|kafka|aiokafka|pika|amqp\w*|kombu|elastic_transport|"
        r"elasticsearch|opensearchpy|minio|"
        r"botocore|google\.api_core|requests|httpx|httpcore|aiohttp|urllib3|clickhouse\w*|snowflake|pymilvus|qdrant_client|"
        r"weaviate|neo4j|cassandra|openai|hvac|consul|etcd3|ldap3|smtplib|ftplib)\.[\w.]*"
        r"(?-i:Connect|Timeout|DeadlineExceeded|ServiceUnavailable|RetryError|AutoReconnect)|"
        r"(?:OperationalError|InterfaceError|DatabaseError)\b.*(?:could not connect|connection (?:to server|refused|timed out)|"
        r"server closed the connection|Lost connection|gone away|could not translate host name)|"
        r"connection to server at \"|(?-i:\bconnect E[A-Z]+ |getaddrinfo E[A-Z]+ )|DNS resolution failed for",
        Reason.HOST_UNREACHABLE, "", SERVER, local=LOCAL_SERVER,
    ),
    Clue(
        r"curl: \((?:5|6|7|28|35|52|56)\)|^wget: .*(?:failed|refused|timed out)|failed: Connection (?:refused|timed out)\.$|"
        r"NoBrokersAvailable|ServerSelectionTimeoutError|Can't connect to \w+ server|"
        r"LocalEntryNotFoundError|Couldn't reach .* on the Hub|Max retries exceeded with url|urlopen error|ConnectTimeout|"
        r"EndpointConnectionError|NameResolutionError|ProxyError|UnknownHostException|KafkaTimeoutError|(?-i:_TRANSPORT\b)|"
        r"Broker transport failure|(?:Run initialization|wandb\S*) .*timed out|wandb\.errors\.\S*CommError|"
        r"HDFS connection failed",
        Reason.HOST_UNREACHABLE, "", HUB,
        local=LOCAL_HUB,
    ),
)  # fmt: skip

PEERS = (
    Clue(
        r"RendezvousConnectionError|\bEI0006\b|Remote Rank did not send", Reason.PEERS_UNREACHABLE, "",
        LOST_PEERS, symptom=True, local=LOCAL_LOST_PEERS,
    ),
    Clue(
        r"RendezvousTimeoutError", Reason.PEERS_UNREACHABLE,
        "fewer torchrun agents joined the rendezvous than --nnodes requires (RendezvousTimeoutError)",
        "set --nnodes to the number of replicas, and check that all replicas start and reach --rdzv-endpoint", symptom=True,
    ),
    Clue(
        r"wait timeout after (\d+)ms, keys: /default_pg/\d+//\w+//\d+/0(?!\d)", Reason.PEERS_UNREACHABLE,
        "rank 0 did not publish its address within {0} ms (wait timeout): it has not started, or is waiting for other ranks "
        "itself",
        LOST_PEERS, symptom=True, local=LOCAL_LOST_PEERS, vague=True,
    ),
    Clue(
        r"wait timeout after (\d+)ms, keys: /default_pg/\d+//\w+//\d+/(\d+)", Reason.PEERS_UNREACHABLE,
        "no process joined as rank {1} within {0} ms (wait timeout)", LOST_PEERS, symptom=True,
        local=LOCAL_LOST_PEERS, vague=True,
    ),
    Clue(
        r"tasks that reached the barrier: (\d+/\d+)[\s\S]*?timed out task names:\s*(/job:\S+(?:\s+/job:\S+)*)",
        Reason.PEERS_UNREACHABLE, "{1} did not reach the barrier of the coordinator, {0} did (Barrier timed out)",
        LOST_PEERS, symptom=True, local=LOCAL_LOST_PEERS,
    ),
    Clue(
        r"remote=\[127\.0\.0\.1\].*local=\[127\.0\.0\.1\]|Using the loopback address as fallback", Reason.PEERS_UNREACHABLE, "",
        "the ranks use the loopback address, because the host name has no other: set GLOO_SOCKET_IFNAME=eth0 in "
        "env", symptom=True,
    ),
    Clue(
        r"ORTE was unable to reliably start|ORTE does not know how to route|unable to reliably start one or more daemons|"
        r"connect(?:ing)? to (?:scheduler|rank|root)\b.* failed|[Ff]ailed to (?:connect to the tracker|"
        r"bootstrap the communication)|"
        r"Proxy Call to rank \d+ failed|(?:XGBoostError|rabit)\b.*Allreduce failed|failed to recv, got 0 bytes|"
        r"store->get\('\d+'\) got error|lost communication with a remote daemon|communicator was aborted|"
        r"another task died|heartbeat timeout|stopped sending heartbeats|The tasks have crashed|waiting (?:for the barrier|"
        r"for tasks|for the scheduler)|\d+/\d+ (?:clients )?(?:joined|reached)|RendezvousClosedError|"
        r"\b(?:c10d|TCPStore|rendezvous|DistNetworkError|DistStoreError|RendezvousConnectionError|NCCL|Gloo|rabit|"
        r"tracker|collective|coordinat\w+|barrier)\b.*"
        r"(?:timed ?out|timeout (?:after|of|while|waiting|expired|exceeded|reached|error)|refused|reset\b|"
        r"connection.{,20}closed|closed.{,20}(?:connection|peer|by)|Broken pipe|unreachable|remote process|"
        r"(?:could not|failed to|unable to) connect|DEADLINE_EXCEEDED)|"
        r"ncclRemoteError|Socket (?:recv|send) error, code|Collective ops is aborted|HorovodInternalError|"
        r"Horovod has been shut down|Socket Timeout",
        Reason.PEERS_UNREACHABLE, "", LOST_PEERS, symptom=True, local=LOCAL_LOST_PEERS,
    ),
    Clue(
        # A replica, or another server.
        r"Could not resolve hostname|ssh: connect to host|failed to connect to all addresses|code = Unavailable|"
        r"\(Unavailable\)|Connection (?:closed|reset) by (?:remote )?peer|"
        r"(?-i:\b(?:DEADLINE_EXCEEDED|UNAVAILABLE|Unavailable|Deadline exceeded): )|\bUnavailableError|\bDeadlineExceeded\b|"
        r"Network is unreachable|No route to host|Connection timed out|ConnectionRefusedError|ConnectionResetError|"
        r"BrokenPipeError|Connection refused|"
        r"getaddrinfo|gaierror|Name or service not known|Temporary failure in name resolution|name resolution failed|"
        r"(?:not|n't|unable to|fail\w*(?: to)?|error|no) (?:be )?resolv(?:e|ed|ing)\b"
        r".{,40}(?:\bhost|address|\bDNS\b|\bIP\b|endpoint|\bservice|-\d+\b)|"
        r"(?:host(?:name)?|address|endpoint)\b.{,80}(?:not|n't|failed to|unable to) (?:be )?resolv(?:e|ed)\b",
        Reason.PEERS_UNREACHABLE, "", UNREACHED, symptom=True, local=LOCAL_UNREACHED,
    ),
)  # fmt: skip

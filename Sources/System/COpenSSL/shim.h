/* OpenSSL 3.0, from Debian's libssl-dev, with wrappers for what Swift cannot import: macros, stacks, and constants with
 * casts. */
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

/* The requirements for both sides of every connection: TLS 1.2 or later, forward secrecy, authenticated encryption, no
 * compression, no renegotiation. Each call writes one record, and idle connections keep no buffers. A read ends after
 * each record, so that a peer cannot occupy a thread with records that contain no data. */
static inline int fb_tls_prepare(SSL_CTX *context, int kernel)
{
    uint64_t options = SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
        SSL_OP_PRIORITIZE_CHACHA;
    if (kernel) options |= SSL_OP_ENABLE_KTLS;
    SSL_CTX_set_options(context, options);
    SSL_CTX_set_mode(
        context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) &&
        SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20:!PSK") &&
        SSL_CTX_set1_groups_list(context, "X25519:P-256:P-384");
}

/* Allows resumption for an hour, with tickets that only this context can decrypt; the server stores nothing. Not used
 * if clients present certificates, which must be verified each time. */
static inline void fb_tls_limit_sessions(SSL_CTX *context, int tickets)
{
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(context, 3600);
    SSL_CTX_set_num_tickets(context, tickets ? 1 : 0);
    if (!tickets) SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
}

/* Rejects encrypted keys instead of prompting for a pass phrase. */
static inline int fb_tls_no_phrase(char *phrase, int size, int writing, void *context)
{
    (void)phrase, (void)size, (void)writing, (void)context;
    return -1;
}

/* Chooses one of a client's protocols. The connection's own list, each name after its length, is its ex_data 0; without
 * a list, no protocol is negotiated. */
static inline int fb_tls_choose(
    SSL *ssl, const unsigned char **chosen, unsigned char *count, const unsigned char *offered,
    unsigned int offered_count, void *context)
{
    (void)context;
    const unsigned char *known = SSL_get_ex_data(ssl, 0);
    if (!known) return SSL_TLSEXT_ERR_NOACK;
    unsigned char *found;
    int result = SSL_select_next_proto(
        &found, count, known, (unsigned int)strlen((const char *)known), offered, offered_count);
    *chosen = found;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static inline long fb_tls_set_name(SSL *ssl, const char *name) { return SSL_set_tlsext_host_name(ssl, name); }

static inline int fb_tls_kernel_sends(SSL *ssl) { return BIO_get_ktls_send(SSL_get_wbio(ssl)) > 0; }

/* Like the socket BIO's write, but without SIGPIPE. Kernel TLS, which needs more than bytes, is left to OpenSSL. */
static inline int fb_tls_send(BIO *bio, const char *bytes, int count)
{
    if (BIO_get_ktls_send(bio)) return BIO_meth_get_write(BIO_s_socket())(bio, bytes, count);
    int fd = (int)BIO_get_fd(bio, NULL);
    BIO_clear_retry_flags(bio);
    int sent = (int)send(fd, bytes, (size_t)count, MSG_NOSIGNAL);
    if (sent <= 0 && BIO_sock_should_retry(sent)) BIO_set_retry_write(bio);
    return sent;
}

static inline BIO_METHOD *fb_tls_make_method(void)
{
    const BIO_METHOD *socket = BIO_s_socket();
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
    if (!method) return NULL;
    BIO_meth_set_write(method, fb_tls_send);
    BIO_meth_set_read(method, BIO_meth_get_read(socket));
    BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(socket));
    BIO_meth_set_create(method, BIO_meth_get_create(socket));
    BIO_meth_set_destroy(method, BIO_meth_get_destroy(socket));
    return method;
}

/* The caller still owns the socket and closes it. */
static inline int fb_tls_attach(SSL *ssl, const BIO_METHOD *method, int fd)
{
    BIO *bio = BIO_new(method);
    if (!bio) return 0;
    BIO_set_fd(bio, fd, BIO_NOCLOSE);
    SSL_set_bio(ssl, bio, bio);
    return 1;
}

/* Text of a certificate, as UTF-8 with a final NUL; 0 if it is not text, is too long, or contains a NUL. */
static inline int fb_tls_text(const ASN1_STRING *text, char *bytes, size_t capacity)
{
    unsigned char *utf8 = NULL;
    int count = ASN1_STRING_to_UTF8(&utf8, text);
    int done = count > 0 && (size_t)count < capacity && strlen((const char *)utf8) == (size_t)count;
    if (done) memcpy(bytes, utf8, (size_t)count + 1);
    OPENSSL_free(utf8);
    return done;
}

/* The common name of a certificate's subject; 0 if there is none, or more than one. */
static inline int fb_tls_common_name(const X509 *certificate, char *bytes, size_t capacity)
{
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (place < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, place) >= 0) return 0;
    return fb_tls_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)), bytes, capacity);
}

/* The first of a certificate's alternative names that is a host name, an e-mail address, or a URI. */
static inline int fb_tls_alternative_name(const X509 *certificate, char *bytes, size_t capacity)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int done = 0;
    for (int i = 0; !done && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS || name->type == GEN_EMAIL || name->type == GEN_URI)
            done = fb_tls_text(name->d.ia5, bytes, capacity);
    }
    GENERAL_NAMES_free(names);
    return done;
}

/* A certificate's subject in the format of RFC 2253: "CN=reader,O=Example". Truncated if it is too long. */
static inline void fb_tls_subject(const X509 *certificate, char *bytes, size_t capacity)
{
    BIO *memory = BIO_new(BIO_s_mem());
    int count = 0;
    if (memory && X509_NAME_print_ex(memory, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0)
        count = BIO_read(memory, bytes, (int)capacity - 1);
    bytes[count > 0 ? count : 0] = 0;
    BIO_free(memory);
}

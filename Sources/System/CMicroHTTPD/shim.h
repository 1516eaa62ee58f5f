/* libmicrohttpd, from Debian's libmicrohttpd-dev, with wrappers for what Swift cannot import: variadic functions, and
 * constants with casts. */
#include <microhttpd.h>
#include <string.h>

/* Users of fb_mhd_head depend on how this version leaves a parsed head in memory. Later versions can parse strictly. */
_Static_assert(MHD_VERSION == 0x00097500, "this is written for libmicrohttpd 0.9.75, Debian 12's");

enum { FB_MHD_END_OF_STREAM = -1 };

/* A daemon without a listening socket or a thread of its own: its owner calls MHD_run when the descriptor is readable
 * or the timeout is due. NULL if there are no descriptors or no memory. */
static inline struct MHD_Daemon *fb_mhd_start(
    unsigned int connections, size_t memory, MHD_AccessHandlerCallback handler,
    void *(*target)(void *, const char *, struct MHD_Connection *), MHD_NotifyConnectionCallback connection,
    MHD_RequestCompletedCallback completed, MHD_LogCallback log, void *context)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        handler, context, MHD_OPTION_EXTERNAL_LOGGER, log, context, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_URI_LOG_CALLBACK, target, context,
        MHD_OPTION_NOTIFY_CONNECTION, connection, context, MHD_OPTION_NOTIFY_COMPLETED, completed, context,
        MHD_OPTION_END);
}

/* Whether a log message says that the library is about to refuse a request because of its Content-Length. Nothing else
 * indicates that before the response, for which the library then writes two heads. */
static inline int fb_mhd_is_bad_length(const char *format)
{
    return strstr(format, "'Content-Length' header.") != NULL || strstr(format, "`Content-Length' header.") != NULL;
}

/* The epoll instance that the daemon waits on. */
static inline int fb_mhd_descriptor(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

/* Bytes of a request's head, from the method; 0 if it has not arrived. */
static inline size_t fb_mhd_head(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

/* Whether there is a response to the request, including the library's own. */
static inline int fb_mhd_is_answered(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_HTTP_STATUS) != NULL;
}

/* Configures the response to be sent unchunked and to end the connection. */
static inline void fb_mhd_end_behind(struct MHD_Response *response)
{
    (void)MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
}

/* The pointer stored by the MHD_NotifyConnectionCallback. */
static inline void *fb_mhd_context(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

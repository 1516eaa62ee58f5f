// forebayd: the broker.

import Server

Broker.main()

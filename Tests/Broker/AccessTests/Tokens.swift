// Keys and tokens for the JWT tests, made by PyJWT. The private keys were discarded. Each token says {"sub": "alice",
// "exp": 4102444800, "forebay": {"publish": ["orders.>"]}}.

@testable import Access

enum Tokens {
    /// Public keys by algorithm, and two that are unusable.
    static let keys: [String: String] = [
        "RS256": """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArMLpCwf38FNXUuecLq6Y
        DLf4U0nM4nmABTE8kA0c1ZHcJ4J+DuLyAPeNwvyPWM7Q4Bf20jxVO0y2tx55NMgG
        GIEvFNurOyg+/KfuJLJ/o8DoXYxgkWOngYuBPVGb6zzEIMSPC6V2TZSsiRrRrMLx
        Vru4ylJOW+xTDY5N2zWVsXYPIo+zjMUhFW1ewC/TqyBiP4Z3u8DUPqJsunK9y0sL
        IaqU0bPE+emZ77rFe072v2TTKuKhdtWbtyfzWP5LXkc5pRMy1B1rVtA/b7EykeyE
        92GJbGArKFyU257/5FI+mest+h1rB1g0toiXPkCSwsth6E8uvutjtHDn4uWu3RkU
        OwIDAQAB
        -----END PUBLIC KEY-----
        """,
        "ES256": """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQbRhXT8Vmee8PjhWjv7pKU20gd85
        O6heSPIkd3l5MNEJQFfGsBQR6VHp7uFIgL7RPo7xpeA8ZYMRJkAHcNjCRA==
        -----END PUBLIC KEY-----
        """,
        "EdDSA": """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEA8ZCbX0xVDivrQ1KdnyIkBzbaRyNEsmFl/r1rEi+GIhs=
        -----END PUBLIC KEY-----
        """,
        "small RSA": """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDaIwuTAuUzlNIm/xviJUUBQnDP
        tdVV50if3/6+8vha79uJUCchVrppRg5oLEytzrVlGdNxjXI2wiRuqKomlgaylkvb
        RIMeYLpHaCr7RYFQbyigQCYsT5JdF2G/Ivc44Xtn5F/pFHkpzgu2PIFWADCtyOVU
        8ufDG0beCAAN6wydsQIDAQAB
        -----END PUBLIC KEY-----
        """,
        "P-384": """
        -----BEGIN PUBLIC KEY-----
        MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEwy8L2T0s1PGofsW5ITazXsaiSvOR3lyy
        ac7xhX3v4/0q058QqKDx/Ts5YjVwXSk3aNs9J1bOJXRhHJLEbei3iHxPBoMEWzv5
        +BMvE1PovqKqrYsxPa54lZP5u9GzlXBk
        -----END PUBLIC KEY-----
        """,
    ]

    static let signed: [JWTAlgorithm: String] = [
        .rs256:
            "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwiZm9yZWJhe"
            + "SI6eyJwdWJsaXNoIjpbIm9yZGVycy4-Il19fQ.YM7vCXl01sCrccA2zpCinxJ99xakT3PWwgFI6kfc71gPTpVyvtJb"
            + "4e1LYp5XdYjOADE9iBPpmnSXjWiZIJI7urDNIF_vCtJ5uEOIfhIEIVONSZ525HI-gH14QI-5bMRt-iUbIqvrV2E0Kq"
            + "RVQ3iHgTiULo5g1ZWZOdBryP631T_Bo3nYghq3fSeRZbBqHiR2NHXVi4G3MeD7Pae5zoxC729vRapTj8ugZnT9ZvJg"
            + "pLgYFgi8t9S8zAKVZ0X7UtDbxtkKRxKY-hJdTNu-7fsyibodThphFlI6kztK1RwjcQzp95W4ZjcwDoZk81IRhzmciC"
            + "O9FV23UOvPDGGSupvbeA",
        .es256:
            "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwiZm9yZWJhe"
            + "SI6eyJwdWJsaXNoIjpbIm9yZGVycy4-Il19fQ.RwoNyXovN9E3pOU_cLXZcN8UTdiuXviD2-pR0FwVp9Em3-owJH7t"
            + "qiwTeCi8jA3PltiG10v719BRSWiRkPdYkQ",
        .edDSA:
            "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwiZm9yZWJhe"
            + "SI6eyJwdWJsaXNoIjpbIm9yZGVycy4-Il19fQ.ydt_reHw2sSQBdamTgjIAhCcaVtZkFMWu5GrsuUe8v1UD3aNMad9"
            + "Bh_96td43xcWgC3MzqwORUb_EvCC-rNrDQ",
    ]
}

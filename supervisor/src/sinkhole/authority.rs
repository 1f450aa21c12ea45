//! The authority of one run: certificates for whatever name a client asks for.
//!
//! Its keys are made when there is a process of the jail, and are gone with this process: the jail has the certificate alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};

/// The name of the authority. That it is no authority of the world is no secret.
const NAME: &str = "Local Trust Services Root R1";
/// The protocol of the web that is spoken here, RFC 7301, section 6.
const HTTP: &[u8] = b"http/1.1";
/// Certificates that are kept for the next client that asks for the same name.
const MOST_KEPT: usize = 256;

/// An authority, and the one key of all the servers that it vouches for.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    key: KeyPair,
    signing: Arc<dyn SigningKey>,
    certificate: String,
    provider: Arc<CryptoProvider>,
    kept: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one, with keys that nobody has had.
    ///
    /// # Errors
    /// When the machine gives no random bytes.
    pub fn new() -> anyhow::Result<Authority> {
        let (own, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = pem(params.self_signed(&own)?.der());
        let signing = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Authority {
            issuer: Issuer::new(params, own),
            signing: ring::sign::any_supported_type(&signing)?,
            key,
            certificate,
            provider: Arc::new(ring::default_provider()),
            kept: Mutex::default(),
        })
    }

    /// The certificate of the authority itself, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A server's side of TLS at this address, which is whoever the client asks for. It speaks the protocol of those that are offered that
    /// it knows; a client that offers others alone is left to choose.
    pub fn server(
        self: &Arc<Self>,
        address: IpAddr,
        hello: &ClientHello<'_>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let named = NamedByClient {
            authority: Arc::clone(self),
            address: address.to_canonical(),
        };
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let config = config.with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth();
        let mut config = config.with_cert_resolver(Arc::new(named));
        if hello
            .alpn()
            .is_some_and(|mut offered| offered.any(|one| one == HTTP))
        {
            config.alpn_protocols = vec![HTTP.to_vec()];
        }
        Ok(Arc::new(config))
    }

    /// The certificate for a name, or for an address where none was asked for.
    fn certified(&self, name: Option<&str>, address: IpAddr) -> Option<Arc<CertifiedKey>> {
        let subject = name.map_or_else(|| address.to_string(), str::to_owned);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&subject) {
            return Some(Arc::clone(known));
        }
        let made = Arc::new(self.certify(&subject, name.is_some(), address)?);
        if kept.len() < MOST_KEPT {
            kept.insert(subject, Arc::clone(&made));
        }
        Some(made)
    }

    fn certify(&self, subject: &str, is_named: bool, address: IpAddr) -> Option<CertifiedKey> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.subject_alt_names = vec![match is_named {
            true => SanType::DnsName(subject.try_into().ok()?),
            false => SanType::IpAddress(address),
        }];
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&self.key, &self.issuer).ok()?;
        let chain = vec![certificate.der().clone()];
        Some(CertifiedKey::new(chain, Arc::clone(&self.signing)))
    }
}

/// Chooses the certificate by the name in the client's greeting.
#[derive(Debug)]
struct NamedByClient {
    authority: Arc<Authority>,
    address: IpAddr,
}

impl ResolvesServerCert for NamedByClient {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.authority.certified(hello.server_name(), self.address)
    }
}

/// Characters of a line of PEM (RFC 7468).
const LINE: usize = 64;

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        pem += line;
        pem.push('\n');
        rest = behind;
    }
    pem + "-----END CERTIFICATE-----\n"
}
